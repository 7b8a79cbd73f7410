"""Runs from a stranger who made every checksum right again: one line, or the right result; never a smaller epsilon.

Sound runs of every kind are not refused.
"""

import json
import re
import shutil

import numpy as np
import pytest
from conftest import command_line, tiny
from hostile import all_null, arrays, column, document, doubled, every, facts, first, parts, scenario, sign

from wirelessdl.analysis.verify import verify
from wirelessdl.errors import RunInterrupted
from wirelessdl.run.session import resume, simulate

NAN, INF = float("nan"), float("inf")
SECTIONS = {
    "scenario": {"name": "tiny", "seed": 3, "rounds": 24},
    "network": {"nodes": 3},
    "learning": {
        "batch_size": 4,
        "eval_every": 6,
        "dataset": {"kind": "synthetic", "samples": 60, "features": 4, "classes": 3, "test_samples": 30},
    },
    "privacy": {"epsilon_max": 0.3},
    "power": {"objective": "own-noise"},
    "trace": {"checkpoint_every": 20, "flush_every": 20},
}

TABLES = {
    "nodes without their last row": parts("nodes", lambda table: table.slice(0, table.num_rows - 1)),
    **{
        f"{name} of nothing but nulls": parts(name, all_null)
        for name in ("rounds", "nodes", "links", "clients", "privacy", "events")
    },
    **{
        f"empty {name}": parts(name, lambda table: table.slice(0, 0))
        for name in ("rounds", "nodes", "links", "clients", "privacy")
    },
    **{f"doubled {name}": parts(name, doubled) for name in ("rounds", "nodes", "links", "clients")},
    "NaN learning rate in rounds": every("rounds", "learning_rate", NAN),
    "zero learning rate in rounds": every("rounds", "learning_rate", 0.0),
    "infinite time in rounds": every("rounds", "time_s", INF),
    "NaN energy in rounds": first("rounds", "energy_j", NAN),
    "NaN alpha in nodes": every("nodes", "alpha", NAN),
    "infinite beta in nodes": every("nodes", "beta", INF),
    "negative beta in nodes": every("nodes", "beta", -1.0),
    "infinite position in nodes": first("nodes", "x_m", INF),
    "NaN multiplier in nodes": first("nodes", "sent_multiplier", NAN),
    "nobody transmitted": every("nodes", "transmitted", False),
    "links to receiver 30000": first("links", "rx", 30000),
    "links from sender -1": first("links", "tx", -1),
    "links of round 2^30": first("links", "round", 2**30),
    "NaN gain in links": every("links", "gain", NAN),
    "links that leak nothing": every("links", "epsilon", 0.0),
    "sampling rate of 1e-300": every("clients", "sampling_rate", 1e-300),
    "sampling rate of 2": every("clients", "sampling_rate", 2.0),
    "no sensitivity": every("clients", "sensitivity", 0.0),
    "no class counts": every("clients", "class_counts", []),
    "class counts of different lengths": first("clients", "class_counts", [1]),
    "negative class counts": every("clients", "class_counts", [-5, -5, -5]),
    "events of node 10^9": parts("events", lambda table: column(table, "node", [10**9] * table.num_rows)),
    "half of the noise is its own": every("nodes", "own_share", 0.5),
    "smaller totals in privacy": every("privacy", "epsilon_total", 1e-3),
}
SURROGATE = "\ud800"
DOCUMENTS = {
    "summary rounds a table": document("summary.json", rounds={"a": 1}),
    "summary rounds null": document("summary.json", rounds=None),
    "summary rounds 10^18": document("summary.json", rounds=10**18),
    "summary promised epsilon a word": document("summary.json", epsilon_total="abc"),
    "summary promised epsilon missing": document("summary.json", epsilon_total=...),
    "summary adversary of another": document("summary.json", adversary="any one node that hears every transmission"),
    "summary epsilon a list": document("summary.json", epsilon_own_total=[1]),
    "summary epsilon missing": document("summary.json", epsilon_own_total=...),
    "summary accuracy a text": document("summary.json", accuracy_mean="good"),
    "summary conditions a number": document("summary.json", epsilon_own_conditions=5),
    "summary conditions with half a character": document("summary.json", epsilon_own_conditions=[SURROGATE]),
    "summary warnings a table": document("summary.json", warnings={"a": 1}),
    "summary stopped a text": document("summary.json", stopped="yes"),
    "provenance folder a number": document("provenance.json", folder=5),
    "provenance folder with a zero byte": document("provenance.json", folder="/tmp/\0x"),
    "provenance folder with half a character": document("provenance.json", folder=SURROGATE),
    "provenance resumed a number": document("provenance.json", resumed=5),
    "provenance error a table": document("provenance.json", error={"a": 1}),
    "provenance error with control characters": document("provenance.json", error="\x1b[31mred\x07\nsecond"),
    "provenance started a list": document("provenance.json", started=[1]),
    "provenance schema a text": document("provenance.json", schema="two"),
    "provenance device with an escape": document("provenance.json", device="\x1b]0;title\x07"),
    "scenario radio a number": scenario("radio", 5),
    "scenario without clip_norm": scenario("privacy.clip_norm", ...),
    "scenario batch size 0": scenario("learning.batch_size", 0),
    "scenario of 2^31 nodes": scenario("network.nodes", 2**31),
    "scenario of 2^40 rounds": scenario("scenario.rounds", 2**40),
    "scenario of pairwise noise": scenario("privacy.noise", "pairwise"),
    "scenario of passes": scenario("radio.mixing_passes", 3),
    "scenario rho zero": scenario("privacy.rho", 0.0),
    "scenario rho a million": scenario("privacy.rho", 1e6),
    "scenario delta one": scenario("privacy.delta_total", 1.0),
    "scenario protocol of another": scenario("privacy.protocol", "paper"),
    "scenario name with an escape": scenario("scenario.name", "\x1b[31mred\x07"),
    "scenario description with an escape": scenario("scenario.description", "\x1b[31mred\x07"),
    "scenario key with an escape": scenario("scenario.\x1b[31mred", 1),
}


def append(text):
    def damage(run):
        with open(run / "checksums.txt", "a") as file:
            file.write(text)

    return damage


def undecodable(run):
    (run / "models").mkdir(exist_ok=True)
    with open(bytes(run / "models") + b"/\xff\xfe", "wb") as file:
        file.write(b"x")


CHECKPOINTS = {
    **{f"checkpoint without {name}": facts(**{name: ...}) for name in ("origin", "scenario", "checksums")},
    **{f"checkpoint of empty {name}": facts(**{name: {}}) for name in ("origin", "scenario", "checksums")},
    "checkpoint checksums of texts": facts(checksums={"gain": "x", "1": {"a": 2}}),
    "checkpoint wall_s a text": facts(wall_s="x"),
    "checkpoint wall_s infinite": facts(wall_s=1e400),
    "checkpoint origin a list": facts(origin=[1]),
    "counts of 2^62 releases": arrays("ledger_own_counts", lambda x: np.stack([x[0], np.full_like(x[1], 2**62)])),
    "half of the releases on links": arrays("ledger_link_counts", lambda x: np.stack([x[0], (x[1] + 1) // 2])),
    "more noise on links": arrays("ledger_link_counts", lambda x: np.stack([x[0] + 1, x[1]])),
    "no releases on links": arrays("ledger_link_counts", lambda x: x[:, :0]),
    "checkpoint checksums of other draws": facts(checksums={"learning.partition": 1}),
    "link counts of 2^62 releases": arrays("ledger_link_counts", lambda x: np.stack([x[0], np.full_like(x[1], 2**62)])),
    "models of zeros": arrays("mixed", np.zeros_like),
    "models of another round": arrays("mixed", lambda x: 1.01 * x),
    "gradients of zeros": arrays("gradient", np.zeros_like),
    "steps of one half": arrays("step", lambda x: x / 2),
    "models of two nodes": arrays("mixed", lambda x: x[:2]),
    "a layout of other sizes": facts(layout=[["x", [3], False]]),
    "a layout of words": facts(layout=[["x", ["three"], False]]),
    "a layout of nothing": facts(layout=5),
    "totals of 1e308": arrays("ledger_own_total", lambda x: np.full_like(x, 1e308)),
}
CHECKSUMS = {
    "a checksum of a name with a zero byte": append(f"{'0' * 64}  models/a\0b\n"),
    "a checksum of a name of 5000 characters": append(f"{'0' * 64}  {'a' * 5000}\n"),
    "a checksum of a name that climbs": append(f"{'0' * 64}  ../../etc/passwd\n"),
    "a file whose name is no text": undecodable,
}
DAMAGES = {**TABLES, **DOCUMENTS, **CHECKPOINTS, **CHECKSUMS}
# what the traces cannot contradict, or nothing rests on: verify says nothing, and need not
UNTOLD = (
    "provenance error with control characters",
    "provenance device with an escape",
    "scenario description with an escape",
    "scenario key with an escape",
    "a file whose name is no text",
    "checkpoint checksums of texts",  # only the draws of the run itself can tell
    "checkpoint checksums of other draws",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A finished run of 24 rounds with checkpoints at 20 and 24."""
    return simulate(tiny(**SECTIONS), out=tmp_path_factory.mktemp("sound")).path


@pytest.fixture(scope="module")
def total(sound, tmp_path_factory):
    """Own epsilon of the sound run, after 30 rounds."""
    longer = shutil.copytree(sound, tmp_path_factory.mktemp("longer") / "run")
    return resume(longer, rounds=30).summary["epsilon_own_total"]


def told(result, *allowed):
    """One line and exit code 2, or a result: nothing raw on the terminal."""
    assert result.code in allowed, result
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.out + result.err), result
    lines = result.err.splitlines()
    if result.code == 2:
        assert len(lines) == 1, result.err
        assert re.match(r"\w+Error: ", lines[0])
    return result


@pytest.mark.parametrize("damage", DAMAGES)
def test_right_checksums_do_not_help(damage, sound, total, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(sound, tmp_path / "runs" / "run")
    DAMAGES[damage](run)
    if damage not in CHECKSUMS:
        sign(run)
    verified = told(command_line("verify", str(run)), 0, 1, 2)
    assert verified.code or damage in UNTOLD, verified.out
    told(command_line("list", str(run.parent)), 0)
    json.loads(told(command_line("list", str(run.parent), "--json"), 0).out)
    told(command_line("compare", str(sound), str(run)), 0, 2)
    compared = told(command_line("compare", str(sound), str(run), "--json"), 0, 2)
    if compared.code == 0:
        first, second = (figures["epsilon_own"] for figures in json.loads(compared.out)["runs"])
        assert second >= first * (1 - 1e-9)
    if damage in TABLES:
        told(command_line("report", str(run), "--out", "r.html"), 0, 2)
        told(command_line("plot", str(run), "--figure", "privacy", "--format", "svg"), 0, 2)
    if told(command_line("run", "--resume", str(run), "--rounds", "30", "--quiet"), 0, 2).code == 0:
        now = float(json.loads((run / "summary.json").read_text())["epsilon_own_total"])
        assert now >= total * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("damage", {**TABLES, **DOCUMENTS})
def test_reports_and_figures_of_such_a_run_are_right_or_one_line(damage, sound, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(sound, tmp_path / "runs" / "run")
    DAMAGES[damage](run)
    sign(run)
    told(command_line("report", str(run), "--out", "r.html"), 0, 2)
    for figure in ("accuracy", "privacy", "tradeoff", "power", "map", "timeline", "channel", "partition"):
        told(command_line("plot", str(run), "--figure", figure, "--format", "svg"), 0, 2)


# --- Sound runs of every kind are not refused (faults, turns, passes: tests/run/test_resume_cases.py)

BASE = {
    "scenario": {"name": "tiny", "seed": 3, "rounds": 45},
    "trace": {"checkpoint_every": 20, "flush_every": 20},
    "learning": {"batch_size": 8, "eval_every": 15},
}
SYNTHETIC = {"kind": "synthetic", "samples": 400, "features": 6, "classes": 3, "test_samples": 100}


def small(**keys):
    return {**BASE["learning"], "dataset": SYNTHETIC, **keys}


CASES = {
    "inf": {"privacy": {"epsilon_max": float("inf")}},
    "links none": {"trace": {**BASE["trace"], "links": "none"}},
    "links evaluated": {"trace": {**BASE["trace"], "links": "evaluated"}},
    "physical": {
        "radio": {"interference": "physical", "thermal_noise": True, "power_dbm": 20},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "range zero gains": {
        "channel": {"models": [{"model": "log-distance"}, {"model": "range", "range_m": 60.0}]},
        "power": {"objective": "own-noise"},
    },
    "poisson": {"learning": small(sampling="poisson")},
    "full": {"learning": small(sampling="full")},
    "shuffled": {"learning": small(sampling="shuffled")},
    "ridge": {
        "learning": {
            **BASE["learning"],
            "dataset": {"kind": "synthetic-regression", "samples": 400},
            "model": "ridge",
            "regret": True,
        }
    },
    "multipliers mean": {"power": {"balance": False, "multiplier": "mean"}},
    "windowed": {"power": {"balance": False, "multiplier": "windowed"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_sound_run_is_verified_and_goes_on(case, tmp_path):
    rounds = []
    with pytest.raises(RunInterrupted) as stopped:
        simulate(
            tiny(**{**BASE, **CASES[case]}), out=tmp_path, on_round=rounds.append, should_stop=lambda: rounds[-1] >= 33
        )
    assert verify(stopped.value.folder).problems == ()
    assert resume(stopped.value.folder).summary["rounds"] == 45
    assert verify(stopped.value.folder).problems == ()
