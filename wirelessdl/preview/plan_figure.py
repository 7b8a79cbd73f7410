"""The power plan as a figure: split, one-slot leakage, leakage behind own noise, weight in the whole."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from wirelessdl.analysis.style import BLUE, GREY, HEAT, ORANGE, save, styled
from wirelessdl.preview.plan import PlanPreview


def draw_plan(preview: PlanPreview, name: str, path: Path) -> None:
    """Four panels, IEEE text width."""
    plan = preview.plan
    with styled():
        figure, axes = plt.subplots(2, 2, figsize=(7.16, 5.2), layout="constrained")
        figure.suptitle(f"{name}: {preview.verdict[0]}", fontsize=9, x=0.01, ha="left")
        _split(axes[0, 0], preview)
        _heat(figure, axes[0, 1], preview)
        _own(axes[1, 0], preview)
        _weight(axes[1, 1], preview)
        for axis in (axes[0, 0], axes[1, 0], axes[1, 1]):
            axis.set_xlabel("node")
            axis.set_xlim(-0.7, len(plan.alpha) - 0.3)
            axis.xaxis.get_major_locator().set_params(integer=True)
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
    axis.set_xlabel("sender")
    axis.set_ylabel("receiver")
    for locator in (axis.xaxis.get_major_locator(), axis.yaxis.get_major_locator()):
        locator.set_params(integer=True)


def _own(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    epsilon = np.where(np.isfinite(plan.epsilon_own), plan.epsilon_own, np.nan)
    node = np.arange(len(epsilon))
    axis.set_title("One slot behind own noise alone")
    axis.set_ylabel("epsilon")
    if np.isnan(epsilon).all():
        axis.text(0.5, 0.5, "no noise: infinite", transform=axis.transAxes, ha="center", color=GREY)
        return
    if np.nanmax(epsilon) > 20 * np.nanmin(epsilon):
        axis.set_yscale("log")
    axis.plot(node, epsilon, "o", color=BLUE, markersize=4)
    axis.axhline(plan.problem.epsilon_max, color=GREY, linestyle="--", linewidth=1)
    axis.annotate("epsilon_max", (node[-1], plan.problem.epsilon_max), (0, 3), textcoords="offset points", ha="right")
    axis.margins(y=0.25)


def _weight(axis: Any, preview: PlanPreview) -> None:
    plan = preview.plan
    nodes = len(plan.alpha)
    axis.bar(np.arange(nodes), plan.perron * nodes, color=BLUE)
    axis.axhline(1.0, color=GREY, linestyle="--", linewidth=1)
    axis.set_ylabel("K pi")
    axis.set_title(f"Weight in the whole (theta {plan.theta:.3g}, gap {plan.spectral_gap:.2g})")
