"""Scenarios that somebody broke: 2,000 mutants of the bundled ones, through check, run, list and report.

Every one ends in a result or in one line with exit code 2; never in a traceback, within a minute and 4 GB.
"""

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
import tomli_w
from conftest import ROOT

MUTANTS, BATCH = 2000, 50
LIMIT_S, LIMIT_BYTES = 60, 4_000_000_000
NAMES = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml") if "cifar" not in path.stem)
VALUES = [
    0, 1, -1, 2, 3, 7, 10**6, 10**9, 10**18, -(10**18), 0.5, -0.5, 1e-300, 1e300, float("inf"), float("-inf"),
    float("nan"), True, False, "", "none", "auto", "full", "x.py:Y", "../../x.py:Y", "a" * 5000, "\x1b[31mred", "[/q]",
    [], [1], ["a"], [[]], {}, {"kind": "none"}, {"kind": 3}, {"model": "softmax"}, {"kind": "full", "p": 1},
]  # fmt: skip


def leaves(table, path=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def mutant(rng):
    """A bundled scenario with one to three keys changed, removed, added or moved."""
    table = tomllib.loads((ROOT / "scenarios" / f"{rng.choice(NAMES)}.toml").read_text())
    table["scenario"]["rounds"] = 2
    table.setdefault("learning", {})["eval_every"] = 2
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(list(leaves(table)))
        place = table
        for step in path[:-1]:
            place = place[step]
        kind = rng.random()
        if kind < 0.65:
            place[path[-1]] = rng.choice(VALUES)
        elif kind < 0.8:
            del place[path[-1]]
        elif isinstance(place, dict):
            place[rng.choice(["nodes", "kind", "model", "rounds", "zzz", str(path[-1])[::-1] or "q"])] = rng.choice(
                VALUES
            )
        else:
            place.append(rng.choice(VALUES))
    if table.get("scenario", {}) and isinstance(table["scenario"], dict):
        rounds = table["scenario"].get("rounds")
        if isinstance(rounds, int) and not isinstance(rounds, bool) and rounds > 3:
            table["scenario"]["rounds"] = 3  # long runs are no mistake
    return table


def limited(seed, folder):
    """A process of its own: BATCH mutants one after another."""
    places = [str(ROOT / "tests" / "campaigns"), str(ROOT / "tests")]
    code = (
        f"import sys; sys.path[:0] = {places!r}; import test_mutated_scenarios as t; t.batch({seed}, {str(folder)!r})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)


def batch(seed, folder):
    from wirelessdl.cli.main import main

    def too_long(*_):
        raise SystemExit("took more than a minute")

    signal.signal(signal.SIGALRM, too_long)
    rng = random.Random(seed)
    for number in range(BATCH):
        file = os.path.join(folder, f"m{number}.toml")
        with open(file, "wb") as handle:
            try:
                tomli_w.dump(mutant(rng), handle)
            except (TypeError, AttributeError, ValueError):
                continue  # not even TOML
        for command in (["check", file], ["run", file, "--quiet", "--out", os.path.join(folder, "out")]):
            sys.argv = ["wirelessdl", *command]
            signal.alarm(LIMIT_S)
            try:
                main()
            except SystemExit as stop:
                if stop.code not in (0, 1, 2, None):
                    print(f"FOUND {seed}/{number} {command[0]}: {stop.code}", flush=True)
            except BaseException as error:
                print(f"FOUND {seed}/{number} {command[0]}: {type(error).__name__}: {error}", flush=True)
            finally:
                signal.alarm(0)
        print("TRIED", flush=True)
    sys.argv = ["wirelessdl", "list", os.path.join(folder, "out")]
    with contextlib.suppress(SystemExit):
        main()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak > LIMIT_BYTES:
        print(f"FOUND {seed}: peak memory {peak / 1e9:.1f} GB", flush=True)


@pytest.mark.slow
def test_no_mutant_of_a_scenario_gets_through_to_a_traceback(tmp_path):
    def one(seed):
        folder = tmp_path / str(seed)
        folder.mkdir()
        return limited(seed, folder)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(one, range(MUTANTS // BATCH)))
    found = [line for run in done for line in run.stdout.splitlines() if line.startswith("FOUND")]
    crashed = [run.stderr[-500:] for run in done if run.returncode]
    tried = sum(run.stdout.count("TRIED") for run in done)
    print(f"{tried} mutants, {len(found)} findings")
    assert not found
    assert not crashed
    assert tried > 0.9 * MUTANTS
