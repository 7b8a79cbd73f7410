"""Run directories from a stranger: planted links, names that climb, damage of every kind, and what `verify` finds."""

import json
import os
import random
import shutil
import tracemalloc

import numpy as np
import pytest
from conftest import ROOT, mostly_slow, tiny
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.errors import TraceError, WirelessdlError
from wirelessdl.run.session import resume, simulate
from wirelessdl.trace.catalog import runs_in
from wirelessdl.trace.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from wirelessdl.trace.run import state_of
from wirelessdl.trace.schema import TABLES
from wirelessdl.trace.sink import Checksums

ROUNDS = 60
SECTIONS = {
    "scenario": {"name": "tiny", "seed": 3, "rounds": ROUNDS},
    "learning": {"batch_size": 8, "eval_every": 20},
    "trace": {"checkpoint_every": 20, "flush_every": 20},
    "privacy": {"epsilon_max": 1.0, "budget_total": 1e6},
}


def stopped_run(round, out, **sections):
    """A run that was stopped after a round."""
    stop, scenario = StopAt(round), tiny(**SECTIONS, **sections)
    return wirelessdl.simulate(scenario, out=out, on_round=stop.on_round, should_stop=stop.should_stop).path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that ended well."""
    return simulate(tiny(**SECTIONS), out=tmp_path_factory.mktemp("finished")).path


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """The same, stopped after 45 of 60 rounds: checkpoints at 40 and 45."""
    return stopped_run(45, tmp_path_factory.mktemp("interrupted"))


@pytest.fixture
def copy(tmp_path):
    def copied(run):
        return shutil.copytree(run, tmp_path / "run", symlinks=True)

    return copied


# --- links that lead elsewhere

PLANTED = [
    ".scenario.toml",
    ".provenance.json",
    ".summary.json",
    ".checksums.txt",
    "summary.json",
    "scenario.toml",
    "provenance.json",
    "rounds/.part-000060.parquet",
    "nodes/.part-000060.parquet",
    "privacy/.part-000000.parquet",
    "clients/.part-000000.parquet",
    "checkpoint/.round-000060.npz",
    "checkpoint/round-000060.npz",
]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_link_is_not_written_through(name, interrupted, finished, copy, tmp_path):
    run, victim = copy(interrupted), tmp_path / "victim"
    content = (run / name).read_bytes() if (run / name).is_file() else b"{}"
    victim.write_bytes(content)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    resume(run)
    assert victim.read_bytes() == content
    assert_same_tables(run, finished)


@pytest.mark.parametrize("name", ["lock", "checksums.txt"])
def test_files_that_are_opened_in_place_refuse_links(name, interrupted, copy, tmp_path):
    run, victim = copy(interrupted), tmp_path / "victim"
    victim.write_text("mine")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    with pytest.raises(TraceError, match=f"{name}: cannot be written"):
        resume(run)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["rounds", "links", "checkpoint", "privacy"])
def test_folders_that_are_links_are_refused(name, interrupted, copy, tmp_path):
    run = copy(interrupted)
    shutil.move(run / name, tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    before = sorted(path.name for path in (tmp_path / "elsewhere").iterdir())
    with pytest.raises(TraceError, match="nothing is written through it"):
        resume(run)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == before


def test_a_report_replaces_a_planted_link(finished, copy, tmp_path, wirelessdl_command):
    run, victim = copy(finished), tmp_path / "victim"
    victim.write_text("mine")
    for name in ("report.html", ".report.html"):
        (run / name).symlink_to(victim)
    assert wirelessdl_command("report", str(run)).code == 0
    assert victim.read_text() == "mine"
    assert not (run / "report.html").is_symlink()


def test_pipes_in_a_run_are_not_waited_for(finished, copy):
    for name in ("lock", "provenance.json", "summary.json", "rounds/part-000060.parquet", "scenario.toml"):
        run = copy(finished)
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
        state_of(run)
        runs_in(run.parent)
        found = one_line_or(lambda run=run: verify(run))
        assert found is None or found.problems or name == "lock"
        shutil.rmtree(run)


# --- names that climb out

CHANNEL = """
import numpy as np

class Flat:
    def gain(self, links, time_s, rng):
        return np.full(len(links), 0.5)
"""


@pytest.mark.parametrize("name", ["../links/g.py", "../lock.py", "../../up.py", "sub/../deep/m.py"])
def test_copies_of_user_files_stay_in_models_whatever_their_names(name, tmp_path, monkeypatch):
    home = tmp_path / "a" / "b"
    file = home / name
    for folder in (home, home / "sub", file.resolve().parent):
        folder.mkdir(parents=True, exist_ok=True)
    file.write_text(CHANNEL)
    monkeypatch.chdir(home)
    run = stopped_run(25, tmp_path / "out", channel={"models": [{"model": f"{name}:Flat"}]})
    inside = {path.relative_to(run).parts[0] for path in run.rglob("*")}
    tables = {"rounds", "nodes", "links", "events", "privacy", "clients"}
    assert inside == tables | {"models", "checkpoint", "scenario.toml", "provenance.json", "checksums.txt"}
    (copied,) = (run / "models").iterdir()
    assert copied.read_text() == CHANNEL
    file.unlink()  # the run goes on from its own copy
    assert resume(run).summary["rounds"] == ROUNDS


# --- damage


def flip(path, place, bit=0):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(bytes(content))


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped at the start": lambda path: flip(path, 0),
    "flipped in the middle": lambda path: flip(path, path.stat().st_size // 2, 3),
    "flipped at the end": lambda path: flip(path, -1, 6),
    "garbage": lambda path: path.write_bytes(random.Random(5).randbytes(300)),
    "deleted": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}
FILES = [
    "scenario.toml",
    "provenance.json",
    "summary.json",
    "checksums.txt",
    "rounds/part-000040.parquet",
    "nodes/part-000040.parquet",
    "links/part-000040.parquet",
    "events/part-000040.parquet",
    "privacy/part-000000.parquet",
    "clients/part-000000.parquet",
    "checkpoint/round-000045.npz",
    "checkpoint/round-000060.npz",
]


def one_line_or(question):
    """What comes of it; None where it is refused, which takes one line."""
    try:
        return question()
    except WirelessdlError as error:
        lines = str(error).count("\n")
    assert lines == 0
    return None


@pytest.mark.parametrize("damage", mostly_slow(DAMAGES, "cut in half", "flipped in the middle", "deleted"))
@pytest.mark.parametrize("state", ["interrupted", "finished"])
def test_damage_is_one_line_or_the_right_result(damage, state, finished, copy, request):
    """Reading, listing, verifying and going on: never a traceback, never other values, never a smaller epsilon."""
    source = request.getfixturevalue(state)
    total = json.loads((finished / "summary.json").read_text())["epsilon_own_total"]
    tried = 0
    for name in FILES:
        if not (source / name).is_file():
            continue
        run = copy(source)
        DAMAGES[damage](run / name)
        tried += 1
        runs_in(run.parent)
        found = one_line_or(lambda run=run: verify(run))
        assert found is None or found.problems, f"{name}: verify found nothing"
        for table in TABLES:
            one_line_or(lambda run=run, table=table: wirelessdl.open_run(run).frame(table))
        gone_on = one_line_or(lambda run=run: resume(run, rounds=ROUNDS))
        if gone_on is not None:
            if state == "interrupted" and name not in ("privacy/part-000000.parquet", "clients/part-000000.parquet"):
                assert_same_tables(run, finished)
            assert float(gone_on.summary.get("epsilon_own_total", total)) >= total * (1 - 1e-9)
        shutil.rmtree(run)
    assert tried >= 10


def test_verify_finds_a_flipped_bit_in_any_file(finished, copy):
    rng = random.Random(11)
    run = copy(finished)
    assert verify(run).problems == ()
    files = sorted(path for path in run.rglob("*") if path.is_file())
    assert len(files) >= 15
    for path in files:
        content = path.read_bytes()
        for place in {0, len(content) - 1, rng.randrange(len(content))}:
            flip(path, place, rng.randrange(8))
            found = one_line_or(lambda: verify(run))  # None: so damaged that there is no run to look at
            assert found is None or found.problems, f"{path.name}: byte {place} of {len(content)}"
            path.write_bytes(content)
    assert verify(run).problems == ()


def test_verify_says_what_is_wrong_on_the_command_line(finished, copy, wirelessdl_command):
    run = copy(finished)
    fine = wirelessdl_command("verify", str(run))
    assert (fine.code, "is as it was written" in fine.out) == (0, True)
    flip(run / "nodes" / "part-000040.parquet", 2000)
    bad = wirelessdl_command("verify", str(run))
    assert bad.code == 1
    assert "nodes/part-000040.parquet: differs from its checksum" in bad.out
    told = json.loads(wirelessdl_command("verify", str(run), "--json").out)
    assert any("differs" in line for line in told["problems"])
    assert wirelessdl_command("verify", str(run.parent / "nothing")).code == 2


def edited(run, change):
    """A checkpoint with other arrays and right digests: somebody's work, not a fault of the disk."""
    kept = load_checkpoint(run)
    arrays = {name: values.copy() for name, values in kept.arrays.items()}
    change(arrays)
    facts = {key: value for key, value in kept.facts.items() if key not in ("schema", "round", "arrays")}
    save_checkpoint(run, Checkpoint(kept.round, arrays, facts))


def drop(name):
    return lambda arrays: arrays.pop(name)


def put(name, value):
    def change(arrays):
        arrays[name] = value(arrays[name]) if callable(value) else value

    return change


EDITS = {
    "missing models": drop("mixed"),
    "missing counts": drop("counts"),
    "unknown array": lambda arrays: arrays.update(extra=np.zeros(3)),
    "misshapen models": put("mixed", lambda x: x[:, :-1]),
    "models of another type": put("mixed", lambda x: x.astype(np.float64)),
    "models that are not numbers": put("mixed", lambda x: np.full_like(x, np.nan)),
    "ledger of NaN": put("ledger_own_total", lambda x: np.full_like(x, np.nan)),
    "negative ledger": put("ledger_own_total", lambda x: -x),
    "counts of senders that do not exist": put("ledger_own_counts", lambda x: x + 10**7),
    "links that do not exist": put("ledger_link_number", lambda x: x + 100),
    "counts of no shape": put("ledger_own_counts", lambda x: x[0]),
    "rates of minus one": put("pending_gamma", lambda x: x - 100.0),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_checkpoint_that_does_not_fit_is_passed_over(edit, interrupted, finished, copy):
    run = copy(interrupted)
    edited(run, EDITS[edit])
    assert resume(run).summary["rounds"] == ROUNDS  # from the one before
    assert_same_tables(run, finished)


ANOTHER, LESS = "holds another gradient of node 0 than its traces do", r"charges node 0 with epsilon .* its traces with"
LEAKS_LESS = {
    "no gradient pending": (put("pending_multiplier", lambda values: 0.0 * values), ANOTHER),
    "a smaller gradient pending": (put("pending_gamma", lambda values: 0.5 * values), ANOTHER),
    "half of the total": (put("ledger_own_total", lambda total: total / 2), LESS),
    "no releases": (put("ledger_own_counts", lambda counts: counts[:, :0]), LESS),
    "releases with more noise": (put("ledger_own_counts", lambda x: np.stack([x[0] + 1, x[1]])), LESS),
}


@pytest.mark.parametrize("edit", LEAKS_LESS)
def test_a_checkpoint_that_leaks_less_than_its_traces_is_refused(edit, interrupted, copy):
    change, words = LEAKS_LESS[edit]
    run = copy(interrupted)
    edited(run, change)
    found = verify(run)
    assert any(line.startswith("checkpoint of round 45: ") for line in found.problems)
    assert found.epsilon_total > 0
    with pytest.raises(TraceError, match=words):
        resume(run)


def packed(run, *, signed, **arrays):
    """The newest checkpoint with these arrays beside or instead of its own, compressed by a thousand."""
    path = sorted((run / "checkpoint").iterdir())[-1]
    with np.load(path) as kept:
        np.savez_compressed(path, **{**kept, **arrays})
    if signed:
        Checksums(run).wrote(path)


@pytest.mark.parametrize(("name", "signed"), [("mixed", False), ("facts", True), ("anything", True)])
def test_a_checkpoint_that_unpacks_to_more_than_its_size_is_not_unpacked(name, signed, finished, copy):
    """100 MB of zeros in 100 kB, with its checksum made right or not."""
    run = copy(finished)
    packed(run, signed=signed, **{name: np.zeros(100_000_000, np.uint8)})
    tracemalloc.start()
    try:
        problems = verify(run).problems
        with pytest.raises(TraceError, match="no checkpoint of round 60; there are: 40"):
            wirelessdl.open_run(run).final_models()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 30_000_000  # frames of the tables
    assert "checkpoint/round-000060.npz: its content is not what was written" in problems
    assert ("checkpoint/round-000060.npz: differs from its checksum" in problems) != signed


# --- ends that were cut short


def test_a_run_appears_with_its_scenario_or_not_at_all(tmp_path, monkeypatch):
    from wirelessdl.trace.sink import RunWriter

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunWriter, "provenance", killed)
    with pytest.raises(KeyboardInterrupt):
        simulate(tiny(**SECTIONS), out=tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_scenarios_from_elsewhere_say_which_code_they_execute(tmp_path, wirelessdl_command):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    shutil.copy(ROOT / "channel_models" / "street.py", elsewhere / "street.py")
    text = (ROOT / "scenarios" / "quickstart.toml").read_text()
    line = 'models = [{ model = "uniform", low = 0.3, high = 1.0 }]'
    assert line in text
    (elsewhere / "s.toml").write_text(text.replace(line, 'models = [{ model = "street.py:Street" }]'))
    said = wirelessdl_command("check", str(elsewhere / "s.toml"))
    assert said.code == 0, said.err
    assert "executes Python code: street.py; run only scenarios that you trust" in said.err
    assert "executes" not in wirelessdl_command("check", "quickstart").err
