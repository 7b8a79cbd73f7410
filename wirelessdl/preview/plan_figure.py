"""The power plan as a figure: split, one-slot leakage, leakage behind own noise, weight in the whole.

Where pairs of nodes share noise, two panels more: the error that is predicted at every pair ratio and number of passes.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from wirelessdl.analysis.style import BLUE, COLOURS, GREY, HEAT, ORANGE, dashed, save, styled
from wirelessdl.preview.plan import PlanPreview


def draw_plan(preview: PlanPreview, name: str, path: Path) -> None:
    """Four panels, or six where pairs share noise, IEEE text width."""
    plan, rows = preview.plan, 3 if preview.trade else 2
    with styled():
        figure, axes = plt.subplots(rows, 2, figsize=(7.16, 2.6 * rows), layout="constrained")
        figure.suptitle(f"{name}: {preview.verdict[0]}", fontsize=9, x=0.01, ha="left")
        _split(axes[0, 0], preview)
        (_heat if preview.terms.counts_links else _mixing)(figure, axes[0, 1], preview)
        _own(axes[1, 0], preview)
        _weight(axes[1, 1], preview)
        for axis in (axes[0, 0], axes[1, 0], axes[1, 1]):
            axis.set_xlabel("node")
            axis.set_xlim(-0.7, len(plan.alpha) - 0.3)
            axis.xaxis.get_major_locator().set_params(integer=True)
        if preview.trade:
            _trade(axes[2, 0], preview)
            _parts(axes[2, 1], preview)
        save(figure, path)


def _split(axis: Any, preview: PlanPreview) -> None:
    plan, node = preview.plan, np.arange(len(preview.plan.alpha))
    axis.bar(node, plan.alpha, color=BLUE, label="model, alpha")
    axis.bar(node, plan.beta, bottom=plan.alpha, color=ORANGE, label="noise, beta")
    axis.set_ylabel("share of power")
    axis.set_title("Power split")
    axis.set_ylim(0, 1.22)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axis.legend(loc="upper left", ncols=2)


def _heat(figure: Any, axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    top = plan.problem.epsilon_max if plan.problem.private else 1.0
    shown = np.where(np.isinf(plan.epsilon), np.nan, plan.epsilon)
    image = axis.imshow(shown, cmap=HEAT, vmin=0, vmax=top, interpolation="nearest")
    figure.colorbar(image, ax=axis, label="epsilon of one slot")
    axis.set_title("What a link leaks in a slot" if plan.problem.private else "No privacy noise: every link leaks all")
    _by_link(axis)


def _mixing(figure: Any, axis: Any, preview: PlanPreview) -> None:
    """In place of link epsilons, which mean nothing where noise is shared or what is heard is sent on."""
    weights = preview.plan.mixing
    shown = np.log10(np.where(weights > 0, weights, np.nan))
    image = axis.imshow(shown, cmap=HEAT, interpolation="nearest", vmin=max(float(np.nanmin(shown)), -4.0), vmax=0.0)
    figure.colorbar(image, ax=axis, label="lg weight")
    axis.set_title("Mixing matrix A of one pass")
    _by_link(axis)


def _by_link(axis: Any) -> None:
    axis.set_xlabel("sender")
    axis.set_ylabel("receiver")
    for locator in (axis.xaxis.get_major_locator(), axis.yaxis.get_major_locator()):
        locator.set_params(integer=True)


def _own(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    epsilon = np.where(np.isfinite(plan.epsilon_own), plan.epsilon_own, np.nan)
    node = np.arange(len(epsilon))
    coalition = preview.terms.coalition
    axis.set_title("One slot behind own noise alone" if not coalition else "One slot, by who colludes")
    axis.set_ylabel("epsilon")
    if np.isnan(epsilon).all():
        axis.text(0.5, 0.5, "no noise: infinite", transform=axis.transAxes, ha="center", color=GREY)
        return
    if np.nanmax(epsilon) > 20 * np.nanmin(epsilon):
        axis.set_yscale("log")
    axis.plot(node, epsilon, "o", color=BLUE, markersize=4, label="everyone else")
    if coalition:
        axis.plot(node, plan.epsilon_coalition, "s", color=ORANGE, markersize=4, label=_any(coalition))
        axis.legend(loc="center right")
    axis.axhline(plan.problem.epsilon_max, color=GREY, linestyle="--", linewidth=1)
    axis.annotate("epsilon_max", (node[-1], plan.problem.epsilon_max), (0, 5), textcoords="offset points", ha="right")
    axis.margins(y=0.25)


def _weight(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    nodes = len(plan.alpha)
    axis.bar(np.arange(nodes), plan.perron * nodes, color=BLUE)
    axis.axhline(1.0, color=GREY, linestyle="--", linewidth=1)
    axis.set_ylabel("K pi")
    axis.set_title(f"Weight in the whole (theta {plan.theta:.3g}, gap {plan.spectral_gap:.2g})")


def _any(coalition: int) -> str:
    return "any one node" if coalition == 1 else f"any {coalition} nodes"


def _trade(axis: Any, preview: PlanPreview) -> None:
    """Mean part and disagreement together."""
    for (passes, row), (colour, line, marker) in zip(preview.trade, _styles(preview)):
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 3, "linewidth": 1}
        here = " (scenario)" if passes == _passes(preview) else ""
        axis.plot([one.ratio for one in row], [one.error for one in row], label=f"{passes}{here}", **style)
    _chosen(axis, preview, ("error",))
    axis.set_title("Predicted error of a node's model")
    axis.set_ylabel("variance per coordinate")
    axis.legend(loc="upper left", ncols=2, title="mixing passes", fontsize=6, title_fontsize=6)


def _parts(axis: Any, preview: PlanPreview) -> None:
    """The same in its parts, in the colours of the numbers of passes."""
    for (passes, row), (colour, line, marker) in zip(preview.trade, _styles(preview)):
        ratios, here = [one.ratio for one in row], passes == _passes(preview)
        axis.plot(ratios, [one.mean for one in row], color=colour, linewidth=2.2 if here else 0.7)
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 3, "linewidth": 1}
        axis.plot(ratios, [one.apart for one in row], **style)
    axis.plot([], [], color=GREY, linewidth=1.5, label="of the consensus")
    axis.plot([], [], color=GREY, linestyle="--", linewidth=1, marker="o", markersize=3, label="of nodes from it")
    _chosen(axis, preview, ("mean", "apart"))
    axis.set_title("Its two parts")
    axis.set_ylabel("variance per coordinate")
    axis.legend(loc="best", fontsize=6)


def _chosen(axis: Any, preview: PlanPreview, parts: tuple[str, ...]) -> None:
    assert preview.joint is not None
    best = preview.joint.best
    axis.axvline(best.ratio, color=GREY, linestyle="--", linewidth=0.8, zorder=0)
    star = {"marker": "*", "color": COLOURS[1], "markeredgecolor": "black", "markersize": 9, "linestyle": "none"}
    for part in parts:
        axis.plot(best.ratio, getattr(best, part), zorder=5, **star)
    if len(parts) > 1:  # said once; the other legend is full of passes
        axis.plot([], [], label=f"choice: r {best.ratio:.3g}, exponent {best.exponent:.2g}", **star)
    axis.set_yscale("log")
    axis.set_xscale("symlog", linthresh=0.25, linscale=0.4)  # r = 0 is independent noise
    ticks = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlim(-0.06, 1.15 * max(one.ratio for _, row in preview.trade for one in row))
    axis.set_xlabel("pair ratio r")


def _passes(preview: PlanPreview) -> int:
    return 0 if preview.joint is None else preview.joint.problem.passes


def _styles(preview: PlanPreview) -> list[tuple[str, Any, str]]:
    return [dashed(number) for number in range(len(preview.trade))]
