"""Files of runs that are damaged at random: the right result or one line, never a traceback or a smaller epsilon.

    python tests/campaigns/damage.py FOLDER DAMAGES [SEED]

A finished and an interrupted run are made once. Each damage takes a copy of one, and one file of it: cut, emptied,
deleted, bytes flipped or overwritten, exchanged for another file of the run, or made unreadable as text. `verify` must
say so (exit code 1, or one line and 2) or the file must not matter; `list` and `report` end in a result or one line;
`run --resume` ends in one line, or in the tables of the uninterrupted run. Lines that begin with FOUND say what went
wrong; the last line has the counts.
"""

import json
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

import mutants  # noqa: E402
from interrupting import StopAt, assert_same_tables  # noqa: E402
from mutants import limited, wrong  # noqa: E402

import wirelessdl  # noqa: E402

mutants.LIMIT_S = 600  # a machine may be busy
SETTINGS = (
    "power.objective=own-noise", "learning.eval_every=10", "trace.checkpoint_every=20", "trace.flush_every=20",
    "scenario.rounds=45",
)  # fmt: skip
KINDS = {
    "cut": lambda rng, old, _: old[: rng.randrange(len(old) + 1)],
    "empty": lambda *_: b"",
    "flip": lambda rng, old, _: _flipped(rng, old),
    "overwrite": lambda rng, old, _: (
        old[: len(old) // 2] + rng.randbytes(min(64, len(old))) + old[len(old) // 2 + 64 :]
    ),
    "exchange": lambda _, __, other: other,
    "no text": lambda _, old, __: b"\xff\xfe\x00" + old,
    "longer": lambda rng, old, _: old + rng.randbytes(100),
    "delete": None,
}


def _flipped(rng, old):
    if not old:
        return b"x"
    place = rng.randrange(len(old))
    return old[:place] + bytes([old[place] ^ (1 << rng.randrange(8))]) + old[place + 1 :]


def make(folder):
    """Paths of a finished run and of one that was stopped after round 30; a child makes them."""
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("the runs to be damaged were not made")
        return next((folder / "whole").iterdir()), next((folder / "part").iterdir())
    scenario, stop = wirelessdl.load_scenario("quickstart", overrides=SETTINGS), StopAt(30)
    try:
        wirelessdl.simulate(scenario, out=folder / "whole")
        wirelessdl.simulate(scenario, out=folder / "part", on_round=stop.on_round, should_stop=stop.should_stop)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    return os._exit(0)


def damaged(rng, run):
    """Spoil one file of a run; what was done to which."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.name != "lock"]
    path, kind = rng.choice(files), rng.choice(sorted(KINDS))
    if KINDS[kind] is None:
        path.unlink()
    else:
        path.write_bytes(KINDS[kind](rng, path.read_bytes(), rng.choice(files).read_bytes()))
    return kind, path.relative_to(run).as_posix()


def tried(rng, folder, whole, source, counts):
    """What was done, and lines for what is wrong."""
    shutil.rmtree(folder / "copy", ignore_errors=True)
    run = shutil.copytree(source, folder / "copy" / source.name)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    what = damaged(rng, run)
    same = all(path.exists() and path.read_bytes() == content for path, content in before.items())
    verdict = limited(["verify", str(run)], folder)
    lines = [f"verify: {problem}"] if (problem := wrong("verify", verdict, (0, 1, 2))) else []
    if verdict[0] == 0 and not same and what[1] != "checksums.txt":
        lines.append("verify: finds nothing")
    counts["noticed"] += verdict[0] != 0
    for command, place in (("list", run.parent), ("report", run)):
        problem = wrong(command, limited([command, str(place)], folder), (0,) if command == "list" else (0, 2))
        lines += [f"{command}: {problem}"] if problem else []
    result = limited(["run", "--resume", str(run), "--quiet"], folder)
    problem = wrong("resume", result, (0, 2))
    lines += [f"resume: {problem}"] if problem else []
    counts["refused"] += result[0] == 2
    if result[0] == 0 and not problem:
        lines += _smaller(run, whole)
        if source != whole:
            try:
                assert_same_tables(run, whole)
                counts["equal"] += 1
            except Exception as error:
                lines.append(f"resume: other tables, and no word of it: {str(error)[:300]}")
    return what, lines


def _smaller(run, whole):
    """Whether a run that was gone on with states a smaller epsilon, and `verify` has nothing against it."""
    try:
        stated = float(json.loads((run / "summary.json").read_text())["epsilon_total"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    true = float(json.loads((whole / "summary.json").read_text())["epsilon_total"])
    if stated < true * (1 - 1e-9) and limited(["verify", str(run)], run.parent)[0] == 0:
        return [f"a smaller epsilon, {stated} instead of {true}"]
    return []


def campaign(folder, count, seed):
    rng, counts = random.Random(seed), Counter()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    whole, part = make(folder)
    for number in range(count):
        (kind, name), lines = tried(rng, folder, whole, rng.choice([whole, part]), counts)
        for line in lines:
            counts["found"] += 1
            print(f"FOUND {seed}:{number} {kind} {name}: {line}", flush=True)
        print(f"TRIED {number} {kind} {name}", flush=True)
    print(
        f"damage: {count} damages, {counts['noticed']} noticed by verify, {counts['refused']} resumes refused with one "
        f"line, {counts['equal']} resumed to equal tables; {counts['found']} found",
        flush=True,
    )
    return counts["found"]


if __name__ == "__main__":
    # loaded once: children inherit it

    place, count, *rest = sys.argv[1:]
    raise SystemExit(min(campaign(Path(place).resolve(), int(count), int(rest[0]) if rest else 0), 1))
