"""The report: runs to one HTML file; template, style, script, data and plotly in it, nothing fetched."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy.special import stdtrit

import wirelessdl
from wirelessdl.analysis.releases import terms_of
from wirelessdl.analysis.report.content import content_of
from wirelessdl.analysis.runs import (
    BASELINES,
    Beside,
    beside,
    differing,
    figure_rows,
    final_figures,
    format_figure,
    format_value,
    grouped,
    labels,
    one_adjacency,
    open_runs,
    protects,
    state,
)
from wirelessdl.errors import TraceError, quote
from wirelessdl.gaussian import exact_slot_epsilon
from wirelessdl.privacy.terms import AMPLIFIED, OUTSIDE
from wirelessdl.trace.catalog import run_status
from wirelessdl.trace.files import plain, remove_left_report, require_outside, write_text
from wirelessdl.trace.run import Run
from wirelessdl.units import prefixed

_HERE = Path(__file__).parent


def write_report(paths: Sequence[str | Path], out: Path, *, accountants: bool = False) -> Path:
    """A page of these runs, which may differ in size. It is whole or absent.

    accountants: also with the totals of the accountants that the scenarios did not name, which takes seconds.
    """
    require_writable(out)
    write_text(out, render(open_runs(paths), accountants=accountants))
    return out


def require_writable(out: Path) -> None:
    """Raise unless a page can be written there, and takes no other file's place."""
    if out.suffix.lower() not in (".html", ".htm") and not out.is_dir():
        raise TraceError(f"{quote(out)}: a report is an HTML file; name one that ends in .html")
    require_outside(out, but="report.html")
    if not out.parent.is_dir():
        raise TraceError(f"{out}: cannot be written: no such folder {out.parent}; name another file")
    if out.is_dir():
        raise TraceError(f"{out}: is a folder; name a file, such as {out / 'report.html'}")
    if any((out.parent / name).is_file() for name in ("provenance.json", "study.json")):
        remove_left_report(out.parent)


def made_page(template: str, scripts: Sequence[str], content: dict[str, Any], **texts: Any) -> str:
    """A page of a template: texts are escaped, content becomes JSON that no text in it can end, all else is ours."""
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(
        **texts,
        outside=OUTSIDE,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=wirelessdl.__version__,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script="\n".join((_HERE / name).read_text(encoding="utf-8") for name in scripts),
        plotly=get_plotlyjs(),
        data=_embedded(content),
    )


def render(runs: Sequence[Run], *, accountants: bool = False) -> str:
    """The page as text."""
    names = labels(runs)
    contents = [
        {"label": name, **content_of(run, len(runs), accountants=accountants)} for name, run in zip(names, runs)
    ]
    others = beside(runs[0]) if len(runs) == 1 else []
    baselines = [
        {"name": BASELINES[one.name], "accuracy": round(one.accuracy, 6)} for one in others if one.name in BASELINES
    ]
    keys = differing(runs)
    sizes = sorted({run.scenario["network"]["nodes"] for run in runs})
    return made_page(
        "page.html",
        ("base.js", "save.js", "curves.js", "network.js", "start.js"),
        {"runs": contents, "families": _families(runs), "beside": baselines},
        title=names[0] if len(runs) == 1 else f"{len(runs)} runs",
        several=len(runs) > 1,
        sentence="" if len(runs) > 1 else _sentence(runs[0], others),
        adjacency=one_adjacency(terms_of(run).adjacency for run in runs),
        sizes=f"{sizes[0]} nodes each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} nodes",
        runs=[_head(run, content) for run, content in zip(runs, contents)],
        differing={key: [format_value(value) for value in values] for key, values in keys.items()},
        figures=_figures(runs),
        tiles=_tiles(runs[0]) if len(runs) == 1 else [],
        meanings=_meanings(runs[0]) if len(runs) == 1 else [],
    )


def _families(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Runs that differ in seed and run number alone, two at least, and what their standard error is multiplied by."""
    found = []
    for group in grouped(runs):
        draws = {tuple(run.scenario["scenario"].get(key) for key in ("seed", "run")): run for run in group.runs[::-1]}
        members = sorted(runs.index(run) for run in draws.values())  # a copy has no draw of its own
        if len(members) > 1:
            found.append({"runs": members, "t": float(stdtrit(len(members) - 1, 0.975))})
    return found


def _embedded(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _head(run: Run, content: dict[str, Any]) -> dict[str, Any]:
    """What the page states of a run in text."""
    status = run_status(run.path)
    section, origin = run.scenario["scenario"], run.provenance
    return {
        "label": content["label"],
        "name": section["name"],
        "description": section.get("description", ""),
        "seed": section.get("seed", ""),
        "run": section.get("run", ""),
        "nodes": run.scenario["network"]["nodes"],
        "protocol": run.scenario.get("privacy", {}).get("protocol", ""),
        "state": status.state,
        "error": status.error,
        "round": int(run.rounds["round"].iloc[-1]),  # rounds on the page; a running run may have more by now
        "rounds": status.rounds,
        "warnings": run.summary.get("warnings", []),
        "totals": content["totals"],
        "notes": content["notes"],
        "scenario": (run.path / "scenario.toml").read_text(encoding="utf-8"),
        "provenance": {key: one_line(value) for key, value in origin.items() if key != "outlines_m"},
    }


def one_line(value: Any) -> str:
    """A provenance entry on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {entry}" for key, entry in value.items())
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _figures(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    rows = figure_rows([final_figures(run) for run in runs])
    protected = ("every epsilon protects", [protects(run) for run in runs])
    against = ("the guaranteed epsilon holds against", [terms_of(run).adversary for run in runs])
    return [("state", [state(run) for run in runs]), protected, against, *rows]


def _sentence(run: Run, others: Sequence[Beside]) -> str:
    """The run in one sentence, and what the same nodes reach otherwise, in runs beside it; empty without accuracy."""
    final, terms = final_figures(run), terms_of(run)
    if final["accuracy_mean"] is None:
        return ""
    epsilon, number = final["epsilon"], {name: format_figure(name, value) for name, value in final.items()}
    said = f"{number['accuracy_mean']} test accuracy"
    if not terms.sends:
        said += ", every node training alone"
    elif epsilon is None or math.isinf(epsilon):
        said += " without privacy noise"
    else:
        said += f" at a {terms.status} total epsilon of {number['epsilon']} against {terms.adversary}"
    said += f"; {number['airtime_s']} s on air, {prefixed(float(run.rounds['energy_j'].sum()), 'J')}."
    compared = ", ".join(f"{BASELINES[one.name]} {one.accuracy:.1%}" for one in others if one.name in BASELINES)
    return f"{said} In the runs beside it: {compared}." if compared else said


def _tiles(run: Run) -> list[tuple[str, str, str]]:
    """Headline figures of one run: label, value and a note of one line."""
    final, energy = final_figures(run), run.scenario.get("energy", {})
    number = {name: format_figure(name, value) for name, value in final.items()}
    spread = f"{number['accuracy_min']} to {number['accuracy_max']} over nodes" if number["accuracy_mean"] else ""
    terms = terms_of(run)
    slot = final["epsilon_link_max"]
    if slot is None:  # pairs share noise, or passes send on what was received
        slot = final["epsilon_promised_max"]
    assert slot is not None
    return [
        ("test accuracy", number["accuracy_mean"] or "none yet", spread or "no evaluation yet"),
        ("total epsilon", number["epsilon"] or "none yet", terms.status + ("" if run.summary else ", so far")),
        (
            "epsilon of one slot",
            f"{exact_slot_epsilon(slot, run.scenario['privacy']['delta']):.3g}",
            "worst link" if number["epsilon_link_max"] else "worst sender",
        ),
        ("simulated time", f"{number['time_s']} s", f"{number['airtime_s']} s on air"),
        (
            "energy used" if energy.get("receive_w") or energy.get("compute_w") else "transmit energy",
            prefixed(float(run.rounds["energy_j"].sum()), "J"),
            f"by {run.scenario['network']['nodes']} nodes",
        ),
        ("rounds", number["rounds"], f"{number['wall_s']} s of wall clock" if number["wall_s"] else "so far"),
    ]


def _meanings(run: Run) -> list[tuple[str, str]]:
    """What the headline figures state, in full: label and statement."""
    final, privacy, terms = final_figures(run), run.scenario.get("privacy", {}), terms_of(run)
    number = {name: format_figure(name, value) for name, value in final.items()}
    total = f"for {protects(run)}; {terms.status}, against {terms.adversary}{'' if run.summary else ', so far'}"
    if number["epsilon"] != number["epsilon_total"]:
        total += f"; at the declared number of rounds; the running total at the stop was {number['epsilon_total']}"
    if terms.promised == "coalition":
        total += f"; against {terms.against('own')}: {number['epsilon_own']}"
    elif number["epsilon_coalition"]:
        total += f"; against {terms.against('coalition')}: {number['epsilon_coalition']}"
    if number["epsilon_link_total"]:
        total += f"; link sum, the paper's sum, unproven: {number['epsilon_link_total']}"
    total += f"; {OUTSIDE}" if terms.sends and number["epsilon"] not in ("", "inf") else ""
    what = "links" if number["epsilon_link_max"] else "senders"
    limit = f"epsilon_max is {format_value(privacy.get('epsilon_max'))}; {number['violations']} {what} exceeded it"
    slot, whose = final["epsilon_link_max"], "worst link (single-antenna receiver)"
    if slot is None:
        slot, whose = final["epsilon_promised_max"], f"worst sender, against {terms.adversary}"
    assert slot is not None
    whose += f"; {slot:.3g} by Theorem 1" if slot < 1.0 else ""
    whose += f"; {AMPLIFIED}" if run.summary.get("amplified") is True else ""
    said = [("total epsilon", total), ("epsilon of one slot", f"{whose}; {limit}")]
    if number["disagreement"]:
        left = f"{number['disagreement']} of disagreement left, {number['uncollected']} nodes not collected"
        said.append(("hubs", f"{number['hubs']} turns of hubs each round, {left}, on average"))
    return said
