"""Runs every bundled scenario and writes docs/gallery.md with its figures and numbers.

    python docs/gallery.py                  all scenarios, a few minutes on two cores
    python docs/gallery.py churn_k20        only these; the others keep what they have
    python docs/gallery.py --page           the page alone, from docs/gallery/gallery.json
    python docs/gallery.py --maps           the small maps alone: networks are built, nothing is trained

Scenarios whose data are not in the package (CIFAR-10) run a few rounds, and only if the data were fetched; without,
their entries stay as they are.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image

import wirelessdl
from wirelessdl.preview.channel import preview_channel
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import bundled_scenarios

HERE = Path(__file__).resolve().parent
KEPT = HERE / "gallery" / "gallery.json"
FIGURES = ("accuracy_mean", "accuracy_min", "accuracy_max", "epsilon_total", "adversary", "delta_total")
FIGURES = (*FIGURES, "rounds", "nodes", "time_s", "airtime_s", "energy_j")
# rounds of scenarios whose data are fetched; None: all of them, where they do not take an hour
NEEDS_DATA = {"cifar10_er_k20": None, "cifar_cnn_k10": 40, "cifar_resnet20_k4": 5, "fashion_full_k20": None}
WITHOUT_DATA = ("learning.dataset=fashion-mnist-subset", "learning.features=none", "learning.model=softmax")
WITHOUT_DATA = (*WITHOUT_DATA, "learning.augment=none", "privacy.gram_share=0.0")  # the same network on other data
# the main example first, then by what they are about
ORDER = ("quickstart", "urban_er_k20", "urban_er_k20_own", "urban_er_k20_paper_lp")
BLUE, ORANGE = "#0072b2", "#d55e00"

TEXT = """# Gallery

Every bundled scenario: what it shows, its figure and its numbers. `make gallery` runs them all and writes this page,
the pictures and `docs/gallery/gallery.json`; one scenario is `python docs/gallery.py NAME`. `make docs-numbers-all`
runs them again and compares.

In the table, a map shows nodes, links and buildings in the first round; where hubs collect models, links between them
and their members. Below, left: nodes and links at the start of the last round; darker links have a larger gain, hollow
nodes are down, grey areas are buildings. Right: test accuracy over simulated time, mean of all nodes with the range
from the worst to the best node. One run each, of the scenario's own seed, with one thread: seeds differ by a point or
two, and by more where few nodes learn.

| scenario | nodes | rounds | test accuracy | proven epsilon | simulated time | on air |
|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="scenarios; all if none is named")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    parser.add_argument("--maps", action="store_true", help="draw the small maps alone")
    options = parser.parse_args()
    unknown = set(options.names) - set(bundled_scenarios())
    if unknown:
        sys.exit(f"no bundled scenario {', '.join(sorted(unknown))}; `wirelessdl list` shows them")
    rows = kept()
    for name in (options.names or bundled_scenarios()) if not options.page else ():
        draw_small(name, HERE / "gallery" / "maps" / f"{name}.png")
    if not (options.page or options.maps):
        for name in options.names or bundled_scenarios():
            rows[name] = row(name, rows.get(name, {}))
            KEPT.parent.mkdir(exist_ok=True)
            shown = {one: rows[one] for one in in_order(rows) if one in bundled_scenarios()}
            KEPT.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    (HERE / "gallery.md").write_text(gallery_page(), encoding="utf-8")


def kept() -> dict[str, dict]:
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}


def in_order(names: object) -> list[str]:
    return sorted(names, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def row(name: str, before: dict, pictures: Path = HERE / "gallery") -> dict:
    """Run one scenario and draw it."""
    shorter = [f"scenario.rounds={NEEDS_DATA[name]}"] if NEEDS_DATA.get(name) else []
    command = f"wirelessdl run {name}{f' --rounds {NEEDS_DATA[name]}' if shorter else ''}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            scenario = wirelessdl.load_scenario(name, overrides=shorter)
            run = wirelessdl.simulate(scenario, out=folder)
        except wirelessdl.WirelessdlError as error:
            if name not in NEEDS_DATA:
                raise
            print(f"{name}: {error}", flush=True)
            return before or {"command": command, "summary": None}
        draw(run, pictures / f"{name}.png", build(scenario).outlines_m)
        summary = {key: run.summary[key] for key in FIGURES}
    print(f"{name}: {summary['accuracy_mean']:.1%}", flush=True)
    return {"command": command, "summary": rounded(summary)}


def rounded(summary: dict) -> dict:
    """Four digits: more would differ from machine to machine."""
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in summary.items()}


def draw(run: wirelessdl.Run, path: Path, outlines_m: Sequence[np.ndarray]) -> None:
    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False})
    figure, (ground, curve) = plt.subplots(1, 2, figsize=(6.4, 2.4), width_ratios=(1, 1.6), layout="constrained")
    last = int(run.rounds["round"].max())
    nodes = run.frame("nodes", ["round", "node", "x_m", "y_m", "up"], rounds=(last, last)).sort_values("node")
    links = run.frame("links", ["round", "tx", "rx", "gain", "neighbour"], rounds=(last, last))
    place, links = nodes[["x_m", "y_m"]].to_numpy(), links[links["neighbour"]]
    draw_links(ground, place, *(links[name].to_numpy() for name in ("tx", "rx", "gain")), outlines_m)
    up = nodes["up"].to_numpy()
    ground.plot(*place[up].T, "o", color=BLUE, markersize=4, zorder=2)
    ground.plot(*place[~up].T, "o", color="white", markeredgecolor=BLUE, markersize=4, zorder=2)
    ground.set(xlabel="m", ylabel="m")
    seen = run.evaluated
    curve.fill_between(
        seen["time_s"], 100 * seen["accuracy_min"], 100 * seen["accuracy_max"], color=BLUE, alpha=0.25, linewidth=0
    )
    curve.plot(seen["time_s"], 100 * seen["accuracy_mean"], color=BLUE)
    words = "variance explained, %" if run.scenario["learning"]["model"]["model"] == "ridge" else "test accuracy, %"
    curve.set(xlabel="simulated time, s", ylabel=words, ylim=(0, 100), xlim=(0, None))
    if len(seen) < 3:  # a few rounds of a long scenario
        curve.plot(seen["time_s"], 100 * seen["accuracy_mean"], "o", color=BLUE, markersize=3)
    curve.grid(alpha=0.3)
    save(figure, path)


def draw_small(name: str, path: Path) -> None:
    """Nodes and links of the first round, from the network alone; under hubs, links between them and their members."""
    changes = ["scenario.rounds=2", *(WITHOUT_DATA if name in NEEDS_DATA else ())]
    world = build(wirelessdl.load_scenario(name, overrides=changes), device="cpu")
    found = preview_channel(world)
    links, gain = found.links, found.frames[0].mean_gain
    used = np.full((links.nodes, links.nodes), found.carry is None or not found.carry.hub_members)
    for hub, members in () if found.carry is None else found.carry.hub_members:
        used[hub, members] = used[members, hub] = True
    used = used[links.rx, links.tx]
    place = links.geometry.position_m[:, :2]
    figure, ground = plt.subplots(figsize=(1.6, 1.2), layout="constrained")
    draw_links(ground, place, links.tx[used], links.rx[used], gain[used], world.outlines_m, width=0.5)
    ground.plot(*place.T, "o", color=BLUE, markersize=2.5, zorder=2)
    ground.margins(0.1)
    ground.set_axis_off()
    save(figure, path)


def draw_links(
    ground: Axes,
    place: np.ndarray,
    tx: np.ndarray,
    rx: np.ndarray,
    gain: np.ndarray,
    outlines_m: Sequence[np.ndarray],
    width: float = 0.7,
) -> None:
    """Buildings, and links that are the darker the larger their gain."""
    level = 20 * np.log10(np.maximum(gain, 1e-12))
    shade = (level - level.min()) / max(np.ptp(level), 1e-9) if len(level) else level
    ground.add_collection(PolyCollection(list(outlines_m), facecolors="0.88", zorder=0), autolim=False)
    for link in np.argsort(shade):
        ends = place[[tx[link], rx[link]]]
        ground.plot(*ends.T, color=str(0.88 - 0.6 * shade[link]), linewidth=width, zorder=1)
    ground.set_aspect("equal", adjustable="datalim")  # nodes on a line have no height of their own


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
    shrink(path)


def shrink(path: Path) -> None:
    """A quarter of the bytes: drawings have few colours."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(48)
    small.save(path, optimize=True)


def gallery_page() -> str:
    """The page, from the kept rows and the headers of the scenarios."""
    rows, files = kept(), bundled_scenarios()
    table, sections = [], []
    for name in in_order(files):
        title, header = _header(files[name])
        small = f"gallery/maps/{name}.png"
        entry = rows[name]
        summary = entry["summary"]
        table.append(f"| [![]({small})<br>`{name}`](#{name}) | {_figures(summary)} |")
        picture = f"\n![{name}: map and test accuracy](gallery/{name}.png)\n" if summary else ""
        sections.append(f"## {name}\n\n{title}\n{picture}\n{header}\n\n{_numbers(name, entry)}\n")
    return TEXT + "\n".join(table) + "\n\n" + "\n".join(sections)


def _header(path: Path) -> tuple[str, str]:
    """First line of a scenario's header, and the rest as paragraphs."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:].strip())
    return lines[0], "\n".join(lines[1:]).strip()


def _figures(summary: dict | None) -> str:
    if summary is None:
        return "| | not run here | | | "
    epsilon = "infinite" if summary["epsilon_total"] in ("inf", float("inf")) else f"{summary['epsilon_total']:.3g}"
    return (
        f"{summary['nodes']} | {summary['rounds']} | {summary['accuracy_mean']:.1%} | {epsilon} | "
        f"{summary['time_s']:.3g} s | {summary['airtime_s']:.3g} s"
    )


def _numbers(name: str, entry: dict) -> str:
    summary = entry["summary"]
    if summary is None:
        return (
            f"Not run here: fetch its data first (`wirelessdl data fetch`), then `{entry['command']}`. "
            "Measured runs are in [learning](learning.md#cifar-10)."
        )
    epsilon = summary["epsilon_total"]
    bound = (
        "no bound on epsilon"
        if epsilon in ("inf", float("inf"))
        else f"epsilon {epsilon:.3g} at delta {summary['delta_total']:g}, proven, against {summary['adversary']}"
    )
    return (
        f"`{entry['command']}`: `{name}` reaches {summary['accuracy_mean']:.1%} ({summary['accuracy_min']:.1%} to "
        f"{summary['accuracy_max']:.1%} over nodes) in {summary['time_s']:.3g} simulated seconds, "
        f"{summary['airtime_s']:.3g} s of them on air; {bound}."
    )


if __name__ == "__main__":
    main()
