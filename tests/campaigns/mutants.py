"""Mutants of the bundled scenarios, and what the commands make of each.

    python tests/campaigns/mutants.py FOLDER FIRST LAST      # two numbers of mutants, from 0

A mutant is drawn from its number, so any one can be had again by itself, without those before it. Strategies of
hypothesis were tried on 50 mutants: 8 came out as runs, 6 of them in a row and much alike, since it varies an example
that it has before it draws a new one.
Every command runs in a child process with 4 GB of data and a minute (`children`). A line that begins with FOUND says
what went wrong, and where; the last line has the counts.
"""

import random
import shutil
import sys
import tomllib
from collections import Counter
from copy import deepcopy
from functools import cache
from pathlib import Path

import tomli_w
from children import limited, load_all, wrong
from journal import Journal

from wirelessdl.scenario.loader import load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
NAMES = sorted(path.stem for path in SCENARIOS.glob("*.toml") if not path.stem.startswith(("cifar", "fashion")))
VALUES = [
    0, 1, -1, 2, 3, 7, 10**6, 10**9, 10**18, -(10**18), 0.5, -0.5, 1e-300, 1e300, float("inf"), float("-inf"),
    float("nan"), True, False, "", "none", "auto", "full", "x.py:Y", "../../x.py:Y", "a" * 5000, "\x1b[31mred", "[/q]",
    [], [1], ["a"], [[]], {}, {"kind": "none"}, {"kind": 3}, {"model": "softmax"}, {"kind": "full", "p": 1},
]  # fmt: skip
ADDED = ["nodes", "kind", "model", "rounds", "zzz"]


def leaves(table, path=()):
    """Every path into nested tables and lists, and what is there."""
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*path, key), value
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def mutate(rng, table):
    """One to three keys changed, removed or added, in place."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        every = list(leaves(table))
        single = [path for path, value in every if not isinstance(value, dict | list)]
        paths = single if single and rng.random() < 0.8 else [path for path, _ in every]
        if not paths:
            return
        *steps, last = rng.choice(paths)
        place = table
        for step in steps:
            place = place[step]
        value = deepcopy(rng.choice(VALUES) if rng.random() < 0.2 else _like(rng, place[last]))
        how = rng.random()
        if how < 0.75:
            place[last] = value
        elif how < 0.9:
            del place[last]
        elif isinstance(place, dict):
            place[rng.choice([*ADDED, str(last)[::-1] or "q"])] = value
        else:
            place.append(value)


def _like(rng, value):
    """A value of the same kind, which gets further than others do: a number around this one, or far from it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + rng.randint(-3, 3), rng.choice([0, 1, 10**6, 10**9, 10**18])])
    if isinstance(value, float):
        far = rng.choice([0.0, 1.0, -1.0, 1e-300, 1e-9, 1e9, 1e300, float("inf"), float("nan")])
        return rng.choice([value * 10 ** rng.uniform(-2, 2), far])
    return rng.choice(_words() if isinstance(value, str) else VALUES)


@cache
def _words():
    """Every text in the bundled scenarios: names of models, kinds and ways."""
    tables = [tomllib.loads((SCENARIOS / f"{name}.toml").read_text()) for name in NAMES]
    return sorted({value for table in tables for _, value in leaves(table) if isinstance(value, str)})


def mutant(rng):
    """A bundled scenario of a few rounds, as it is written or with every key spelt out, and keys mutated."""
    file = SCENARIOS / f"{rng.choice(NAMES)}.toml"
    table = tomllib.loads(file.read_text()) if rng.random() < 0.5 else load_scenario(file).to_table()
    table["scenario"]["rounds"] = 2
    table.setdefault("learning", {})["eval_every"] = 2
    mutate(rng, table)
    section = table.get("scenario")
    rounds = section.get("rounds") if isinstance(section, dict) else None
    if isinstance(rounds, int) and not isinstance(rounds, bool) and rounds > 3:
        section["rounds"] = 3  # long runs are no mistake
    return table


def commands(rng, table, folder):
    """Name, verdict and seconds of every command on one mutant; half of the runs are edited before they are read."""
    file, out = folder / "mutant.toml", folder / "out"
    file.write_bytes(tomli_w.dumps(table).encode())

    def tried(name, *arguments, allowed=(0, 2)):
        result = limited([name, *arguments], folder)
        return result[0], (name, wrong(name, result, allowed), result[2])

    yield tried("check", str(file))[1]
    code, verdict = tried("run", str(file), "--quiet", "--out", str(out))
    yield verdict
    for run in sorted(out.iterdir()) if out.is_dir() else []:
        sound = code == 0 and rng.random() < 0.5
        if not sound:
            kept = tomllib.loads((run / "scenario.toml").read_text())
            mutate(rng, kept)
            (run / "scenario.toml").write_bytes(tomli_w.dumps(kept).encode())
        yield tried("list", str(out), allowed=(0,))[1]
        yield tried("report", str(run), allowed=(0,) if sound else (0, 2))[1]


def attempt(number, folder, journal):
    """Try one mutant and print a line for it, TRIED, after one for everything that went wrong, FOUND."""
    rng, counts = random.Random(number), Counter(mutants=1)
    table, place = mutant(rng), folder / str(number)
    try:
        tomli_w.dumps(table)
    except (TypeError, AttributeError, ValueError):
        journal.add(number, Counter(untold=1))  # not even TOML
        return
    shutil.rmtree(place, ignore_errors=True)  # of a campaign that was stopped
    place.mkdir(parents=True)
    took, found = [], []
    for name, problem, seconds in commands(rng, table, place):
        took.append(f"{name} {seconds:.1f} s")
        counts[name] += 1
        found += [f"{name}: {problem}"] if problem is not None else []
    journal.add(number, counts, found)
    print(f"TRIED {number} {', '.join(took)}", flush=True)
    shutil.rmtree(place)


def campaign(folder, first, last):
    journal = Journal(folder)
    for number in range(first, last + 1):
        if number not in journal:
            attempt(number, folder, journal)
    counts = journal.counts
    return journal.report(
        f"mutants: {counts['mutants']} mutants, {counts['check'] + counts['run'] + counts['list'] + counts['report']} "
        f"commands, {counts['report']} of them reports of runs that came out, half of these edited; {counts['untold']} "
        "more that TOML cannot hold"
    )


if __name__ == "__main__":
    load_all()
    raise SystemExit(min(campaign(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])), 1))
