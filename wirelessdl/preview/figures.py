"""Figures of a plan and of a channel, before a run.

Plan: power split, one-slot leakage, leakage behind a sender's own noise, weight in the network average. Channel: where
links are strong, and how they change.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patheffects import withStroke

from wirelessdl.analysis.style import BLUE, GREY, HEAT, ORANGE, save, styled
from wirelessdl.arrays import FloatArray, IntArray
from wirelessdl.links import Links
from wirelessdl.preview.channel import ChannelPreview, FrequencyPreview, LinkFacts
from wirelessdl.preview.plan import PlanPreview
from wirelessdl.units import to_db

_LINES = ("-", "--", ":")
_COLOURS = (BLUE, ORANGE, GREY)


def draw_plan(preview: PlanPreview, name: str, path: Path) -> None:
    """Four panels, IEEE text width."""
    plan = preview.plan
    with styled():
        figure, axes = plt.subplots(2, 2, figsize=(7.16, 5.2), layout="constrained")
        figure.suptitle(f"{name}: {preview.verdict[0]}", fontsize=9, x=0.01, ha="left")
        _split(axes[0, 0], preview)
        (_leakage if preview.terms.counts_links else _mixing)(figure, axes[0, 1], preview)
        _own(axes[1, 0], preview)
        _weights(axes[1, 1], preview)
        for axis in (axes[0, 0], axes[1, 0], axes[1, 1]):
            axis.set_xlabel("node")
            axis.set_xlim(-0.7, len(plan.alpha) - 0.3)
            axis.xaxis.get_major_locator().set_params(integer=True)
        save(figure, path)


def _split(axis: Any, preview: PlanPreview) -> None:
    plan, node = preview.plan, np.arange(len(preview.plan.alpha))
    axis.bar(node, plan.alpha, color=BLUE, label=r"model, $\alpha$")
    axis.bar(node, plan.beta, bottom=plan.alpha, color=ORANGE, label=r"noise, $\beta$")
    axis.set(ylabel="share of power", title="Power split")
    axis.set_ylim(0, 1.22)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axis.legend(loc="upper left", ncols=2)


def _leakage(figure: Any, axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    top = plan.problem.epsilon_max if plan.problem.private else 1.0
    shown = np.where(np.isinf(plan.epsilon), np.nan, plan.epsilon)
    image = axis.imshow(shown, cmap=HEAT, vmin=0, vmax=top, interpolation="nearest")
    figure.colorbar(image, ax=axis, label="epsilon of one slot")
    axis.set_title("Leakage of a link in one slot" if plan.problem.private else "No privacy noise: links leak all")
    _by_link(axis)


def _mixing(figure: Any, axis: Any, preview: PlanPreview) -> None:
    """In place of link epsilons, which mean nothing where noise is shared or what is heard is sent on."""
    carried = None if preview.carry is None else preview.carry.weights
    weights = preview.plan.mixing if carried is None else carried
    shown = np.log10(np.where(weights > 0, weights, np.nan))
    image = axis.imshow(shown, cmap=HEAT, interpolation="nearest", vmin=max(float(np.nanmin(shown)), -4.0), vmax=0.0)
    figure.colorbar(image, ax=axis, label="lg weight")
    axis.set_title("Mixing matrix A of one pass" if carried is None else "Mixing matrix of a round, mean gains")
    _by_link(axis)


def _by_link(axis: Any) -> None:
    axis.set(xlabel="sender", ylabel="receiver")
    for locator in (axis.xaxis.get_major_locator(), axis.yaxis.get_major_locator()):
        locator.set_params(integer=True)


def _own(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    epsilon = np.where(np.isfinite(plan.epsilon_own), plan.epsilon_own, np.nan)
    node = np.arange(len(epsilon))
    coalition = preview.terms.coalition
    axis.set(title="One slot, by who colludes" if coalition else "One slot, sender's own noise", ylabel="epsilon")
    if np.isnan(epsilon).all():
        axis.text(0.5, 0.5, "no noise: infinite", transform=axis.transAxes, ha="center", color=GREY)
        return
    axis.plot(node, epsilon, "o", color=BLUE, markersize=4, label="all other nodes")
    if coalition:
        axis.plot(node, plan.epsilon_coalition, "s", color=ORANGE, markersize=4, label=_any(coalition))
        axis.legend(loc="center right")
    axis.axhline(plan.problem.epsilon_max, color=GREY, linestyle="--", linewidth=1)
    axis.annotate("epsilon_max", (node[-1], plan.problem.epsilon_max), (0, 5), textcoords="offset points", ha="right")
    if np.nanmax(epsilon) > 20 * np.nanmin(epsilon):
        axis.set_yscale("log")
        axis.margins(y=0.25)
    else:
        axis.set_ylim(0, 1.25 * max(one for one in (np.nanmax(epsilon), plan.problem.epsilon_max) if np.isfinite(one)))


def _weights(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    nodes = len(plan.alpha)
    axis.bar(np.arange(nodes), plan.perron * nodes, color=BLUE)
    axis.axhline(1.0, color=GREY, linestyle="--", linewidth=1)
    laid_out = preview.carry is not None and preview.carry.weights is not None
    gap = "" if laid_out else f", gap {plan.spectral_gap:.2g}"
    axis.set(ylabel=r"$K\pi$", title=f"Weight in the average (theta {plan.theta:.3g}{gap})")


def _any(coalition: int) -> str:
    return "any one node" if coalition == 1 else f"any {coalition} nodes"


def draw_channel(
    found: ChannelPreview,
    facts: LinkFacts,
    chosen: list[tuple[int, int]],
    name: str,
    path: Path,
    band: FrequencyPreview | None = None,
) -> None:
    """A map and gains as frames open, IEEE text width; gains over frequency below where they depend on it."""
    panels = "mt" if band is None else "mt;ff"
    height = 2.7 if band is None else 5.4
    with styled():
        figure, axes = plt.subplot_mosaic(panels, figsize=(7.16, height), layout="constrained")
        figure.suptitle(f"{name}: {len(facts.tx)} links over {len(found.time_s)} frames", fontsize=9, x=0.01, ha="left")
        _map(figure, axes["m"], found)
        if found.carry is not None and found.carry.hub_members:
            _draw_hubs(axes["m"], found, found.carry.hub_members)
        _over_time(axes["t"], found, chosen)
        if band is not None:
            _over_frequency(axes["f"], band, found.links, chosen)
        save(figure, path)


def _map(figure: Any, axis: Any, found: ChannelPreview) -> None:
    # nodes set the limits: a map may reach far beyond them
    axis.add_collection(PolyCollection(list(found.outlines_m), facecolors=GREY, alpha=0.2, zorder=0), autolim=False)
    links, gain_db = found.links, to_db(found.frames[0].mean_gain ** 2)
    position = links.geometry.position_m[:, :2]
    order = np.argsort(gain_db)  # the strongest on top
    if found.carry is not None and found.carry.hub_members:  # only links that are used
        used = np.zeros((links.nodes, links.nodes), dtype=bool)
        for hub, members in found.carry.hub_members:
            used[hub, members] = used[members, hub] = True
        order = order[used[links.rx, links.tx][order]]
    lines = np.stack([position[links.tx], position[links.rx]], axis=1)[order]
    frame = found.frames[0]
    strange = frame.heard.where(~frame.is_neighbour)
    if len(strange):  # who is heard without being meant
        ends = np.stack([position[strange.tx], position[strange.rx]], axis=1)
        axis.add_collection(LineCollection(list(ends), colors=GREY, linewidths=0.3, alpha=0.35, zorder=1))
        axis.plot([], [], color=GREY, linewidth=0.6, alpha=0.6, label="non-neighbours")
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
    axis.set(xlabel="x in m", ylabel="y in m", title="First frame, fading averaged out")
    figure.colorbar(drawn, ax=axis, label="gain in dB")


def _draw_hubs(axis: Any, found: ChannelPreview, hub_members: tuple[tuple[int, IntArray], ...]) -> None:
    """A ring around every hub; lines to its members are those of the map."""
    place = found.links.geometry.position_m[[hub for hub, _ in hub_members], :2]
    axis.plot(*place.T, "o", markersize=8, markerfacecolor="none", markeredgecolor=ORANGE, zorder=4, label="hubs")
    axis.legend(loc="lower right", fontsize=6, frameon=True)
    axis.set_title("Hubs and members by mean gains, first frame")


def _away(node: int, position: FloatArray) -> tuple[float, float]:
    """Offset of a node's number in points: away from its nearest neighbour, so that numbers do not meet."""
    apart = position[node] - np.delete(position, node, axis=0)
    towards = apart[np.argmin(np.hypot(*apart.T))]
    right, up = towards >= 0
    return (3.0 if right else -3.0 - 2.5 * len(str(node)), 3.0 if up else -7.0)


def _over_time(axis: Any, found: ChannelPreview, chosen: list[tuple[int, int]]) -> None:
    for number, (tx, rx) in enumerate(chosen):
        time_s, gain = found.over_time(tx, rx)
        axis.plot(time_s, to_db(gain**2), **_link_style(number, tx, rx))
    axis.set(xlabel="simulated time in s", ylabel="gain in dB", title="Gain as frames open")
    axis.margins(y=0.3)
    axis.legend(loc="upper right", ncols=3, fontsize=7)


def _link_style(number: int, tx: int, rx: int) -> dict[str, Any]:
    line, colour = _LINES[number % 3], _COLOURS[number % 3]
    return {"linestyle": line, "color": colour, "linewidth": 1.0, "label": f"{tx} to {rx}"}


def _over_frequency(axis: Any, band: FrequencyPreview, links: Links, chosen: list[tuple[int, int]]) -> None:
    half_mhz = band.subband_hz / 2e6
    for number, (tx, rx) in enumerate(chosen):
        for link in np.flatnonzero((links.tx == tx) & (links.rx == rx)).tolist():
            gain_db, centre_mhz = to_db(band.gain[:, link] ** 2), band.offset_hz / 1e6
            edges = np.append(centre_mhz - half_mhz, centre_mhz[-1] + half_mhz)
            axis.stairs(gain_db, edges, baseline=None, **_link_style(number, tx, rx))
    axis.set(xlabel="frequency from the carrier in MHz", ylabel="gain in dB", title="Gain over frequency, first frame")
    axis.margins(y=0.3)
    axis.legend(loc="upper right", ncols=3, fontsize=7)
