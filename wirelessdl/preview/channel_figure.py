"""The air as a figure: where links are strong, how they change, and whether chance is as theory says."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patheffects import withStroke

from wirelessdl.analysis.style import BLUE, GREY, HEAT, ORANGE, save, styled
from wirelessdl.arrays import FloatArray
from wirelessdl.links import Links
from wirelessdl.preview.channel import ChannelPreview, FadingPreview, LinkFacts
from wirelessdl.preview.frequency import FrequencyPreview
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
    band: FrequencyPreview | None = None,
) -> None:
    """Four panels, IEEE text width; two more where gains depend on frequency."""
    rows = 2 if band is None else 3
    with styled():
        figure, axes = plt.subplots(rows, 2, figsize=(7.16, 2.7 * rows), layout="constrained")
        figure.suptitle(f"{name}: {len(facts.tx)} links over {len(found.time_s)} frames", fontsize=9, x=0.01, ha="left")
        _map(figure, axes[0, 0], found)
        _over_time(axes[0, 1], found, chosen)
        _distribution(axes[1, 0], probe)
        _correlation(axes[1, 1], probe)
        if band is not None:
            _over_frequency(axes[2, 0], band, found.links, chosen)
            _frequency_correlation(axes[2, 1], band)
        save(figure, path)


def _map(figure: Any, axis: Any, found: ChannelPreview) -> None:
    _buildings(axis, found.buildings_m)
    links, gain_db = found.links, to_db(found.frames[0].mean_gain ** 2)
    position = links.geometry.position_m[:, :2]
    order = np.argsort(gain_db)  # the strongest on top
    lines = np.stack([position[links.tx], position[links.rx]], axis=1)[order]
    frame = found.frames[0]
    strange = frame.heard.where(~frame.is_neighbour)
    if len(strange):  # who is heard without being meant
        ends = np.stack([position[strange.tx], position[strange.rx]], axis=1)
        axis.add_collection(LineCollection(list(ends), colors=GREY, linewidths=0.3, alpha=0.35, zorder=1))
        axis.plot([], [], color=GREY, linewidth=0.6, alpha=0.6, label="strangers")
        axis.legend(loc="lower right", fontsize=6, frameon=True)
    drawn = LineCollection(list(lines), array=gain_db[order], cmap=HEAT, linewidths=1.0, zorder=2)
    axis.add_collection(drawn)
    axis.plot(*position.T, "o", color="black", markersize=3.5)
    if links.nodes <= 40:
        for node, place in enumerate(position):
            number = axis.annotate(str(node), place, _away(node, position), textcoords="offset points", fontsize=6)
            number.set_path_effects([withStroke(linewidth=1.5, foreground="white")])  # readable on top of links
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    axis.set_xlabel("x in m")
    axis.set_ylabel("y in m")
    axis.set_title("First frame, fading averaged out")
    figure.colorbar(drawn, ax=axis, label="gain in dB")


def _buildings(axis: Any, buildings_m: FloatArray) -> None:
    left, bottom, width, depth = buildings_m.T
    right, top = left + width, bottom + depth
    corners = np.stack([left, bottom, right, bottom, right, top, left, top], axis=1).reshape(-1, 4, 2)
    # nodes set the limits: a map may reach far beyond them
    axis.add_collection(PolyCollection(list(corners), facecolors=GREY, alpha=0.2, zorder=0), autolim=False)


def _away(node: int, position: FloatArray) -> tuple[float, float]:
    """Offset of a node's number in points: away from its nearest neighbour, so that numbers do not meet."""
    apart = position[node] - np.delete(position, node, axis=0)
    towards = apart[np.argmin(np.hypot(*apart.T))]
    right, up = towards >= 0
    return (3.0 if right else -3.0 - 2.5 * len(str(node)), 3.0 if up else -7.0)


def _over_time(axis: Any, found: ChannelPreview, chosen: list[tuple[int, int]]) -> None:
    for number, (tx, rx) in enumerate(chosen):
        time_s, gain = found.over_time(tx, rx)
        style = {"linestyle": _LINES[number % 3], "color": _COLOURS[number % 3], "linewidth": 1.0}
        axis.plot(time_s, to_db(gain**2), label=f"{tx} to {rx}", **style)
    axis.set_xlabel("simulated time in s")
    axis.set_ylabel("gain in dB")
    axis.set_title("Gain as frames open")
    axis.margins(y=0.3)
    axis.legend(loc="upper right", ncols=3, fontsize=7)


def _distribution(axis: Any, probe: FadingPreview | None) -> None:
    axis.set_title("Amplitude of fading")
    if probe is None:
        _nothing(axis)
        return
    level = np.sort(probe.amplitude.ravel())
    # deep fades are what matters, and they are rare: even steps of the logarithm
    shown = np.unique(np.geomspace(1, len(level), 600).astype(int)) - 1
    depth_db = to_db(level**2)
    axis.plot(depth_db[shown], (shown + 0.5) / len(level), color=BLUE, linewidth=1.8, label="drawn")
    if probe.theory_cdf is not None:
        grid_db = np.linspace(depth_db[shown[0]], depth_db[-1], 400)
        theory = probe.theory_cdf(10 ** (grid_db / 20))
        axis.plot(grid_db, theory, color="black", linestyle="--", linewidth=1.0, label="theory")
    axis.set_yscale("log")
    axis.set_ylim(bottom=0.3 / len(level), top=2.0)
    axis.set_xlabel("fade in dB against the mean power")
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
    axis.set_yticks([tick for tick in axis.get_yticks() if tick < 1.0 + 1e-9])
    axis.legend(loc="upper right", ncols=2)


def _over_frequency(axis: Any, band: FrequencyPreview, links: Links, chosen: list[tuple[int, int]]) -> None:
    half_mhz = band.subband_hz / 2e6
    for number, (tx, rx) in enumerate(chosen):
        for link in np.flatnonzero((links.tx == tx) & (links.rx == rx)).tolist():
            gain_db, centre_mhz = to_db(band.gain[:, link] ** 2), band.offset_hz / 1e6
            edges = np.append(centre_mhz - half_mhz, centre_mhz[-1] + half_mhz)
            style = {"linestyle": _LINES[number % 3], "color": _COLOURS[number % 3], "linewidth": 1.0}
            axis.stairs(gain_db, edges, baseline=None, label=f"{tx} to {rx}", **style)
    axis.set_xlabel("frequency from the carrier in MHz")
    axis.set_ylabel("gain in dB")
    axis.set_title("Gain over frequency, first frame")
    axis.margins(y=0.3)
    axis.legend(loc="upper right", ncols=3, fontsize=7)


def _frequency_correlation(axis: Any, band: FrequencyPreview) -> None:
    axis.set_title("Correlation over frequency")
    if band.lag_hz is None or band.drawn is None:
        _nothing(axis, "nothing fades by frequency")
        return
    lag_mhz = band.lag_hz / 1e6
    axis.plot(lag_mhz, np.abs(band.drawn), color=BLUE, linewidth=1.8, label="drawn")
    if band.theory is not None:
        axis.plot(lag_mhz, np.abs(band.theory), color="black", linestyle="--", linewidth=1.0, label="theory")
    axis.axhline(0.5, color=GREY, linewidth=0.6)
    axis.set_xlabel("lag in MHz")
    axis.set_ylabel("|R|, correlation of h")
    axis.set_ylim(0.0, 1.25)
    axis.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    axis.legend(loc="upper right", ncols=2)


def _nothing(axis: Any, words: str = "no small-scale fading") -> None:
    axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", color=GREY)
    axis.set_axis_off()
