"""Study directories as a sweep writes them, from tiny runs or from numbers alone."""

import itertools
import json
import math
from pathlib import Path

import pandas as pd
from conftest import tiny_table

from wirelessdl.scenario.loader import parse_scenario


def write_study(folder: Path, rows: list[dict], varied: list[str], name: str = "made") -> Path:
    """Manifest, scenario and index of these rows; a row has cell, seed, run, the varied keys and figures."""
    folder.mkdir(parents=True, exist_ok=True)
    defaults = {"name": None, "baseline": None, "run": 1, "status": "finished", "error": None, "wall_s": 1.0}
    full = [{**defaults, "path": f"runs/{row['cell']}-s{row['seed']}-r{row.get('run', 1)}", **row} for row in rows]
    cells = {
        row["cell"]: {
            "cell": row["cell"],
            "name": row["name"],
            "values": {key: "inf" if row.get(key) == math.inf else row.get(key) for key in varied},
            "overrides": [],
            "baseline": row["baseline"],
        }
        for row in full
    }
    manifest = {
        "schema": 1,
        "name": name,
        "scenario": "tiny",
        "scenario_sha256": "0" * 64,
        "versions": {"wirelessdl": "0.1.0"},
        "varied": varied,
        "cells": list(cells.values()),
        "seeds": sorted({row["seed"] for row in full}),
        "runs": sorted({row["run"] for row in full}),
    }
    (folder / "study.json").write_text(json.dumps(manifest))
    (folder / "scenario.toml").write_text('[scenario]\nname = "tiny"\n')
    frame = pd.DataFrame(full)
    for text in ("name", "baseline", "error"):
        frame[text] = frame[text].astype("string")
    frame.to_parquet(folder / "index.parquet", index=False)
    return folder


def run_study(folder: Path, vary: dict[str, list], seeds=(3, 4), baselines: dict | None = None, **sections) -> Path:
    """A study of real runs: the grid of `vary`, and baselines given as {name: {dotted key: value}}."""
    from wirelessdl.run.session import simulate

    keys = list(vary)
    cells = [(None, dict(zip(keys, values))) for values in itertools.product(*vary.values())]
    cells += [(name, overrides) for name, overrides in (baselines or {}).items()]
    rows = []
    for number, (baseline, values) in enumerate(cells):
        for seed in seeds:
            table = tiny_table(**sections)
            for key, value in {**values, "scenario.seed": seed}.items():
                section, _, last = key.partition(".")
                table.setdefault(section, {})[last] = value
            run = simulate(parse_scenario(table), out=folder / "runs", device="cpu")
            cell = f"c{number:03d}"
            run.path.rename(folder / "runs" / f"{cell}-s{seed}-r1")
            summary = json.loads((folder / "runs" / f"{cell}-s{seed}-r1" / "summary.json").read_text())
            scalars = {
                name: float(value) if value in ("inf", "-inf") else value
                for name, value in summary.items()
                if not isinstance(value, list | dict)
            }
            own = {key: values.get(key) if baseline is None else None for key in keys}
            rows.append({"cell": cell, "baseline": baseline, **own, "seed": seed, **scalars, "run": 1})
    return write_study(folder, rows, keys)
