"""The air as a figure: where links are strong, how they change, and whether chance is as theory says."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from wirelessdl.analysis.style import BLUE, GREY, HEAT, ORANGE, save, styled
from wirelessdl.preview.channel import ChannelPreview, FadingPreview, LinkFacts
from wirelessdl.units import to_db

_LINES = ("-", "--", ":")
_COLOURS = (BLUE, ORANGE, GREY)


def draw_channel(
    found: ChannelPreview,
    facts: LinkFacts,
    probe: FadingPreview | None,
    chosen: list[tuple[int, int]],
    name: str,
    path: Path,
) -> None:
    """Four panels, IEEE text width."""
    with styled():
        figure, axes = plt.subplots(2, 2, figsize=(7.16, 5.4), layout="constrained")
        figure.suptitle(f"{name}: {len(facts.tx)} links over {len(found.time_s)} frames", fontsize=9, x=0.01, ha="left")
        _map(figure, axes[0, 0], found)
        _over_time(axes[0, 1], found, chosen)
        _distribution(axes[1, 0], probe)
        _correlation(axes[1, 1], probe)
        save(figure, path)


def _map(figure: Any, axis: Any, found: ChannelPreview) -> None:
    links, gain_db = found.links, to_db(found.frames[0].mean_gain ** 2)
    position = links.geometry.position_m[:, :2]
    order = np.argsort(gain_db)  # the strongest on top
    lines = np.stack([position[links.tx], position[links.rx]], axis=1)[order]
    drawn = LineCollection(list(lines), array=gain_db[order], cmap=HEAT, linewidths=1.0)
    axis.add_collection(drawn)
    axis.plot(*position.T, "o", color="black", markersize=3.5)
    if links.nodes <= 40:
        for node, place in enumerate(position):
            axis.annotate(str(node), place, (3, 3), textcoords="offset points", fontsize=6)
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    axis.set_xlabel("x in m")
    axis.set_ylabel("y in m")
    axis.set_title("First frame, fading averaged out")
    figure.colorbar(drawn, ax=axis, label="gain in dB")


def _over_time(axis: Any, found: ChannelPreview, chosen: list[tuple[int, int]]) -> None:
    for number, (tx, rx) in enumerate(chosen):
        time_s, gain = found.over_time(tx, rx)
        style = {"linestyle": _LINES[number % 3], "color": _COLOURS[number % 3], "linewidth": 1.0}
        axis.plot(time_s, to_db(gain**2), label=f"{tx} to {rx}", **style)
    axis.set_xlabel("simulated time in s")
    axis.set_ylabel("gain in dB")
    axis.set_title("Gain as frames open")
    axis.margins(y=0.25)
    axis.legend(loc="upper right", ncols=3)


def _distribution(axis: Any, probe: FadingPreview | None) -> None:
    axis.set_title("Amplitude of fading")
    if probe is None:
        _nothing(axis)
        return
    level = np.sort(probe.amplitude.ravel())
    shown = np.unique(np.linspace(0, len(level) - 1, 2000).astype(int))
    axis.plot(level[shown], (shown + 0.5) / len(level), color=BLUE, linewidth=1.8, label="drawn")
    if probe.theory_cdf is not None:
        grid = np.linspace(0, level[-1], 300)
        axis.plot(grid, probe.theory_cdf(grid), color="black", linestyle="--", linewidth=1.0, label="theory")
    axis.set_xlabel("|h| with unit mean power")
    axis.set_ylabel("share of links and instants below")
    axis.legend(loc="lower right")


def _correlation(axis: Any, probe: FadingPreview | None) -> None:
    axis.set_title("Memory of fading")
    if probe is None:
        _nothing(axis)
        return
    lags = len(probe.time_s) // 4
    lag_s = probe.time_s[:lags] - probe.time_s[0]
    unit, per_s = ("s", 1.0) if lag_s[-1] > 2 else ("ms", 1e3)
    axis.plot(per_s * lag_s, probe.correlation(lags), color=BLUE, linewidth=1.8, label="drawn")
    if probe.theory_correlation is not None:
        theory = probe.theory_correlation(lag_s)
        axis.plot(per_s * lag_s, theory, color="black", linestyle="--", linewidth=1.0, label="theory")
    axis.axhline(0.0, color=GREY, linewidth=0.6)
    axis.set_xlabel(f"lag in {unit}")
    axis.set_ylabel("correlation of |h|²")
    axis.set_ylim(top=1.25)
    axis.set_yticks([tick for tick in axis.get_yticks() if tick <= 1.0])
    axis.legend(loc="upper right", ncols=2)


def _nothing(axis: Any) -> None:
    axis.text(0.5, 0.5, "no small-scale fading", transform=axis.transAxes, ha="center", color=GREY)
    axis.set_axis_off()
