"""Files of runs and studies that are damaged at random: the right result or one line, never another one unsaid.

    python tests/campaigns/damage.py FOLDER DAMAGES [SEED]

A finished and an interrupted run and study are made once; the runs have a channel model of the user's, pairwise noise
and all tables. Each damage takes a copy of one, and one file of it: cut, emptied, deleted, bytes flipped or
overwritten, exchanged for another file of it, made unreadable as text, or one value of a document edited.

Runs: `verify` must say so (exit code 1, or one line and 2) or the file must not matter; `list` and `report` end in a
result or one line; `run --resume` ends in one line, or in the tables of the uninterrupted run.
Studies: `list` and `report` end in a result or one line; `compare` ends in one line, or prints what
it printed before; `sweep --resume` ends in one line, or in the index and the tables of the uninterrupted study.

Lines that begin with FOUND say what went wrong; the last line has the counts. A damage is drawn from its number; one
campaign that was stopped goes on (`journal`).
"""

import json
import os
import shutil
import tomllib
import traceback
from contextlib import suppress

import children
import tomli_w
from children import limited, load_all, wrong
from interrupting import HIDDEN_STATE, StopAt, assert_same_tables
from journal import difference, main, numbered
from mutants import leaves

import wirelessdl

children.LIMIT_S = 600  # a machine may be busy
SETTINGS = (
    "power.objective=own-noise", "learning.eval_every=10", "trace.checkpoint_every=20", "trace.flush_every=20",
    "scenario.rounds=45", "learning.batch_size=8",
    "learning.dataset={kind='synthetic',samples=400,test_samples=100}",
    "privacy.noise=pairwise", "trace.blocks=true",
    "channel.models=[{model='log-distance'},{model='drift.py:Drift'}]",
)  # fmt: skip
SWEEP = (
    *("sweep", "quickstart", "--rounds", "2", "--vary", "privacy.epsilon_max=1,inf", "--no-local", "--jobs", "1"),
    *("--set", "learning.dataset={kind='synthetic',samples=400,test_samples=100}", "--set", "learning.batch_size=8"),
    *("--seeds", "2", "--quiet"),
)
VALUES = [
    0, -1, 3, 10**18, 0.5, 1e300, True, None, "", "x", "9.9.9", "\x1b[31m", "y" * 5000, [], [1], ["a"], {}, {"a": 1},
]  # fmt: skip
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
    "edit": lambda rng, old, _: _edited(rng, old),
    "delete": None,
}


def _edited(rng, old):
    """One value of a document changed, as an editor would; a flipped bit of what is no document."""
    for load, dump in ((json.loads, json.dumps), (tomllib.loads, tomli_w.dumps)):
        with suppress(ValueError, TypeError, AttributeError, UnicodeDecodeError):
            table = load(old.decode())
            *steps, last = rng.choice([path for path, _ in leaves(table)])
            place = table
            for step in steps:
                place = place[step]
            place[last] = rng.choice(VALUES)
            return dump(table).encode()
    return _flipped(rng, old)


def _flipped(rng, old):
    if not old:
        return b"x"
    place = rng.randrange(len(old))
    return old[:place] + bytes([old[place] ^ (1 << rng.randrange(8))]) + old[place + 1 :]


# --- what is damaged


def make(folder):
    """A finished and an interrupted run, and a finished and an interrupted study, unless they are there; by name."""
    if not (folder / "made").exists():
        for name in ("run", "part", "study", "half"):
            shutil.rmtree(folder / name, ignore_errors=True)
        _make_runs(folder)
        code, output, *_ = limited([*SWEEP, "--out", str(folder / "study" / "study")], folder)
        if code:
            raise RuntimeError(f"the study to be damaged was not made: {output}")
        half = shutil.copytree(folder / "study" / "study", folder / "half" / "study")
        shutil.rmtree(half / "runs" / "c001-s8-r1")
        (folder / "made").touch()
    return {name: next((folder / name).iterdir()) for name in ("run", "part", "study", "half")}


def _make_runs(folder):
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("the runs to be damaged were not made")
        return
    scenario, stop = wirelessdl.load_scenario("quickstart", overrides=SETTINGS), StopAt(30)
    try:
        mine = folder / "mine"
        mine.mkdir(exist_ok=True)
        os.chdir(mine)
        (mine / "drift.py").write_text(HIDDEN_STATE)
        wirelessdl.simulate(scenario, out=folder / "run")
        wirelessdl.simulate(scenario, out=folder / "part", on_round=stop.on_round, should_stop=stop.should_stop)
        shutil.rmtree(mine)  # all that is left of the user's model are the copies in the runs
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def damaged(rng, place):
    """Spoil one file of a run or study; what was done to which."""
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and not path.name.endswith("lock")]
    own = [path for path in files if path.parent == place]
    chosen = own if (place / "study.json").exists() and rng.random() < 0.7 else files
    place_of = rng.choice(sorted({path.parent for path in chosen}))  # folders alike, however many parts they have
    path, kind = rng.choice([path for path in chosen if path.parent == place_of]), rng.choice(sorted(KINDS))
    if KINDS[kind] is None:
        path.unlink()
    else:
        path.write_bytes(KINDS[kind](rng, path.read_bytes(), rng.choice(files).read_bytes()))
    return kind, path.relative_to(place).as_posix()


# --- what must hold


def tried_run(rng, folder, whole, source, counts):
    """What was done to a run, and lines for what is wrong."""
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
            lines += _counted(difference(assert_same_tables, run, whole), counts)
    return what, lines


def _counted(lines, counts):
    counts["equal"] += not lines
    return [f"resume: {line}" for line in lines]


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


def tried_study(rng, folder, whole, source, counts):
    """What was done to a study, and lines for what is wrong."""
    study = shutil.copytree(source, folder / "copy" / source.name)
    told = limited(["compare", str(study)], folder)[:2]
    what = damaged(rng, study)
    lines, noticed = [], 0
    for words, allowed in (
        (("list", str(study.parent)), (0,)),
        (("list", str(study)), (0, 2)),
        (("report", str(study)), (0, 2)),
        (("compare", str(study)), (0, 2)),
    ):
        result = limited(words, folder)
        problem = wrong(words[0], result, allowed)
        lines += [f"{words[0]}: {problem}"] if problem else []
        noticed += result[0] != 0
        if words[0] == "compare" and result[0] == 0 and result[:2] != told:
            lines.append(f"compare: other figures, and no word of it: {result[1]!r}")
    result = limited(["sweep", "--resume", str(study), "--jobs", "1", "--quiet"], folder)
    counts["noticed"] += noticed > 0 or result[0] != 0
    counts["refused"] += result[0] != 0
    if result[0] != 1:  # runs that failed are told of by a line each
        problem = wrong("resume", result, (0, 2))
        lines += [f"resume: {problem}"] if problem else []
    if result[0] == 0:
        # files of runs that are finished are not read again: `verify` has the word there
        deep = what[1].startswith("runs/") and not what[1].endswith("summary.json")
        lines += [] if deep else _counted(difference(assert_same_study, study, whole), counts)
    return what, lines


def assert_same_study(study, whole):
    one, other = wirelessdl.open_study(study), wirelessdl.open_study(whole)
    columns = [name for name in other.index.columns if name != "wall_s"]
    assert list(one.index.columns) == list(other.index.columns), "other columns in the index"
    assert one.index[columns].equals(other.index[columns]), "other values in the index"
    for path in other.index["path"]:
        assert_same_tables(study / path, whole / path)


def campaign(folder, count, seed):
    made = make(folder)

    def tried(rng, counts):
        shutil.rmtree(folder / "copy", ignore_errors=True)
        # studies that go on start workers, which takes seconds: fewer of them
        name = rng.choice(["run", "part", "run", "part", "run", "part", "study", "half"])
        is_study = name in ("study", "half")
        tried_one, whole = (tried_study, made["study"]) if is_study else (tried_run, made["run"])
        (kind, file), lines = tried_one(rng, folder, whole, made[name], counts)
        counts[name] += 1
        return f"{name}, {kind} {file}", lines

    journal = numbered(folder, count, seed, tried)
    counts = journal.counts
    return journal.report(
        f"damage: {counts['trials']} damages ({counts['run']} of finished and {counts['part']} of interrupted runs, "
        f"{counts['study']} of finished and {counts['half']} of interrupted studies), {counts['noticed']} noticed, "
        f"{counts['refused']} resumes refused, {counts['equal']} resumed to equal results"
    )


if __name__ == "__main__":
    load_all()
    main(campaign)
