"""Parts handed in as objects: every kind of part, stored as files, resumed from the directory or handed in again."""

import functools
import hashlib
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import quick_table
from interrupting import StopAt, assert_same_tables

import wirelessdl
from wirelessdl.analysis.verify import verify
from wirelessdl.channel import LogDistance, Nakagami, Rayleigh, Rician, Shadowing, SidelinkUrban
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.learning.data import Dataset
from wirelessdl.power.allocate import solve
from wirelessdl.run.registry import PARTS
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import PART_KEYS

TWENTY = 20.0


def amplitude(loss_db):
    return 10 ** (-loss_db / TWENTY)


class Corridor:
    """One number and a function beside the class."""

    def __init__(self, exponent: float = 1.8):
        self.exponent = exponent

    def gain(self, links, time_s, rng):
        del time_s
        return amplitude(40 + 10 * self.exponent * np.log10(links.distance_m)) * rng.rayleigh(0.7, len(links))


# the same as a file, or a cell of a notebook
CORRIDOR = "import numpy as np\n\n\nTWENTY = 20.0\n\n\n" + "\n\n".join(map(inspect.getsource, (amplitude, Corridor)))


class Table:
    """An array, which no scenario holds."""

    def __init__(self, gains):
        self.gains = np.asarray(gains)

    def gain(self, links, time_s, rng):
        del time_s, rng
        return self.gains[links.rx, links.tx]


class Counting(Corridor):
    """Remembers how often it was asked."""

    def __init__(self):
        super().__init__(2.0)
        self.asked = 0

    def gain(self, links, time_s, rng):
        self.asked += 1
        return super().gain(links, time_s, rng) * (1 + 0.01 * self.asked)


class Locked(Counting):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Ring:
    def links(self, geometry, snr_db, rng):
        del snr_db, rng
        near = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
        return wirelessdl.Links.from_mask((near == 1) | (near == 3), geometry)


class Drift:
    def __init__(self, start_m, speed_mps: float = 3.0):
        self.start_m, self.speed_mps = start_m, speed_mps

    def geometry(self, time_s):
        velocity = np.tile([self.speed_mps, 0.0, 0.0], (len(self.start_m), 1))
        return wirelessdl.Geometry(self.start_m + time_s * velocity, velocity)


class Rings:
    def __init__(self, samples: int = 120):
        self.samples = samples

    def load(self):
        rng = np.random.default_rng(0)
        y = np.arange(self.samples) % 2
        x = (rng.normal(size=(self.samples, 3)) + y[:, None]).astype(np.float32)
        return Dataset("rings", x[:-40], y[:-40], x[-40:], y[-40:], classes=2)


class Deal:
    def split(self, labels, nodes, rng):
        return np.array_split(rng.permutation(len(labels)), nodes)


class Halving:
    def rate(self, round):
        return 0.1 / round


class OwnNoise:
    def allocate(self, problem, theta=None):
        return solve(problem, objective="own-noise", theta=theta)


class Mirror:
    def transform(self, samples):
        return samples[:, ::-1]


class Net(torch.nn.Module):
    def __init__(self, features, classes, width: int = 4):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(features, width), torch.nn.Linear(width, classes)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


THREADS = {"learning.strategy": "threads"}  # of modules; vmap takes seconds to load


def scenario(**sections):
    return parse_scenario(quick_table(**sections))


def long(rounds):
    """A scenario with a checkpoint after every 20 rounds."""
    return scenario(scenario={"rounds": rounds}, trace={"checkpoint_every": 20, "flush_every": 20})


def stopped(base, out, after, **parts):
    """A run that was asked to stop after a round."""
    stop = StopAt(after)
    return wirelessdl.simulate(base, out=out, on_round=stop.on_round, should_stop=stop.should_stop, **parts)


def stored_source(run):
    (file,) = (run.path / "models").iterdir()
    return file.read_text()


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """A run of 60 rounds with a channel object, whole and stopped after 27."""
    folder = tmp_path_factory.mktemp("object")
    whole = wirelessdl.simulate(long(60), out=folder / "whole", channel=Corridor(2.5))
    return whole, stopped(long(60), folder / "cut", 27, channel=Corridor(2.5))


def test_every_part_of_a_scenario_has_a_word_in_python():
    assert set(PART_KEYS.values()) == set(PARTS)
    assert all(word == key.rpartition(".")[2] for word, key in PART_KEYS.items() if word != "channel")


def test_objects_stand_wherever_a_scenario_takes_a_part():
    run = wirelessdl.simulate(
        scenario().replace(THREADS),
        out=None,
        channel=["log-distance", {"model": "rician", "k_db": 9}, Corridor()],
        topology=Ring(),
        mobility=Drift,
        dataset=Rings(160),
        partition=Deal(),
        learning_rate=Halving(),
        allocator=OwnNoise(),
        features=Mirror(),
        model=functools.partial(Net, width=5),
    )
    stored = run.scenario
    assert [part["model"].rpartition(":")[2] for part in stored["channel"]["models"]] == [
        "log-distance",
        "rician",
        "Corridor",
    ]
    assert stored["learning"]["model"]["width"] == 5
    assert stored["learning"]["dataset"]["samples"] == 160
    assert stored["network"]["mobility"]["speed_mps"] == 3.0
    assert sorted(map(tuple, run.links[["tx", "rx"]].drop_duplicates().to_numpy())) == [
        (tx, rx) for tx in range(4) for rx in range(4) if abs(tx - rx) in (1, 3)
    ]
    assert run.nodes.groupby("node")["x_m"].nunique().min() == 2  # they move
    assert all(said["resumes"] for said in run.provenance["objects"].values())
    (file,) = (run.path / "models").iterdir()  # one file, of which nine classes were taken
    assert file.read_bytes() == Path(__file__).read_bytes()
    assert list(run.provenance["user_files"].values()) == [hashlib.sha256(file.read_bytes()).hexdigest()]
    assert not [text for text in run.summary["warnings"] if "handed in" in text]


CHAIN = [{"model": "sidelink-urban"}, {"model": "shadowing", "sigma_db": 5.0}, {"model": "rician", "k_db": 3.0}]


def arrows(frequency_hz=3.5e9):
    return SidelinkUrban(frequency_hz) >> Shadowing(sigma_db=5.0) >> Rician(k_db=3.0)


@pytest.mark.parametrize("schedule", ["static", "adaptive", "robust"])
def test_arrows_make_the_chain_that_a_list_in_a_file_makes(schedule):
    base = scenario(power={"schedule": schedule}, radio={"thermal_noise": True}, trace={"links": "all"})
    listed, chained = (wirelessdl.simulate(base, out=None, channel=chain) for chain in (CHAIN, arrows()))
    assert_same_tables(chained.path, listed.path)  # gains, plans and all that follows from them
    stored = chained.scenario["channel"]["models"]
    assert [part["model"] for part in stored] == ["sidelink-urban", "shadowing", "rician"]
    assert "objects" not in chained.provenance  # nothing is needed to resume it
    assert stored[0].pop("frequency_hz") == 3.5e9
    assert stored == listed.scenario["channel"]["models"]


def test_arrows_within_a_list_and_around_a_class_of_the_users_are_one_chain():
    listed = ["log-distance", Corridor(), "rayleigh", {"model": "nakagami", "m": 3.0}]
    chained = [LogDistance(3.5e9) >> Corridor() >> Rayleigh(), functools.partial(Nakagami, m=3.0)]
    one, other = (wirelessdl.simulate(scenario(), out=None, channel=chain) for chain in (listed, chained))
    assert_same_tables(other.path, one.path)


def test_a_built_in_object_keeps_its_carrier_and_what_was_set_afterwards():
    lower = wirelessdl.simulate(scenario(), out=None, channel=arrows(1e9))
    scaled = wirelessdl.simulate(scenario(channel={"frequency_hz": 1e9}), out=None, channel=CHAIN)
    assert_same_tables(lower.path, scaled.path)
    changed = LogDistance(3.5e9)
    changed.exponent = 2.0
    one = wirelessdl.simulate(scenario(), out=None, channel=changed >> Rayleigh())
    other = wirelessdl.simulate(scenario(), out=None, channel=[{"model": "log-distance", "exponent": 2.0}, "rayleigh"])
    assert one.links["gain"].tolist() == other.links["gain"].tolist()
    assert "its attribute exponent is not what its constructor makes" in " ".join(one.summary["warnings"])


def test_a_run_with_an_object_resumes_from_its_directory_alone(long_run, tmp_path):
    whole, cut = long_run
    copy = cut.save(tmp_path / "copy")
    assert wirelessdl.resume(copy.path).state == "done"
    assert_same_tables(copy.path, whole.path)


@pytest.mark.slow
def test_a_run_with_an_object_of_a_file_resumes_in_another_process(long_run, tmp_path, monkeypatch):
    """The file is not there any more, and nothing of the first process but the run directory."""
    whole, _ = long_run
    (tmp_path / "its_corridor.py").write_text(CORRIDOR)
    monkeypatch.syspath_prepend(tmp_path)
    from its_corridor import Corridor as Its

    cut = stopped(long(60), tmp_path, 27, channel=Its(2.5))
    (tmp_path / "its_corridor.py").unlink()
    code = f"import wirelessdl; print(wirelessdl.resume({str(cut.path)!r}).state)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "done"
    assert_same_tables(cut.path, whole.path)


def test_resuming_with_another_class_or_other_arguments_is_refused(long_run, tmp_path):
    _, cut = long_run
    copy = cut.save(tmp_path / "copy")
    with pytest.raises(wirelessdl.TraceError, match=r"channel.models.0.model was test_parts.*start a new run"):
        wirelessdl.resume(copy.path, channel=Table(np.ones((4, 4))))
    with pytest.raises(wirelessdl.TraceError, match=r"exponent was 2.5, is 3.0"):
        wirelessdl.resume(copy.path, channel=Corridor(3.0))


def notebook_class(text, name):
    """A class of a notebook: of no module that can be imported."""
    namespace = {"__name__": "__main__", "np": np, "torch": torch}
    exec(text, namespace)
    return namespace[name]


NET = """
class Net(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.inner = torch.nn.Linear(features, classes)

    def forward(self, x):
        return self.inner(torch.tanh(x))
"""
RATE = "class Rate:\n    def rate(self, round):\n        return 0.1 / round\n"
DOUBLE = "class Double:\n    def transform(self, samples):\n        return 2 * samples\n"


GAINS = np.full((4, 4), 0.4) + 0.1 * np.eye(4)[::-1]


def of_notebook(name, text, edit=("", ""), **given):
    """Gives the class of a notebook's cell, edited, or an object of it."""

    def make():
        found = notebook_class(text.replace(*edit), name)
        return found(**given) if given else found

    return make


# as first handed in, the same again (its cell with a comment), and another
COMMENTED = f"{CORRIDOR}        # and no more\n"
CUT_OFF = {
    "channel": [
        *(of_notebook("Corridor", text, exponent=2.5) for text in (CORRIDOR, COMMENTED)),
        of_notebook("Corridor", CORRIDOR, ("10 * self", "11 * self"), exponent=2.5),
    ],
    "array": [lambda: Table(GAINS), lambda: Table(GAINS), lambda: Table(2 * GAINS)],
    "model": [of_notebook("Net", NET, edit) for edit in (("", ""), ("", ""), ("tanh", "relu"))],
    "learning_rate": [of_notebook("Rate", RATE, edit) for edit in (("", ""), ("", ""), ("0.1", "0.09"))],
    "features": [of_notebook("Double", DOUBLE, edit) for edit in (("", ""), ("", ""), ("2 *", "3 *"))],
}


@pytest.mark.parametrize("name", CUT_OFF)
def test_an_object_that_no_file_can_make_again_is_handed_in_again_and_judged_by_its_values(name, tmp_path):
    (make, again, edited), key = CUT_OFF[name], "channel" if name == "array" else name
    base = long(30).replace(THREADS, model=Net) if key == "model" else long(30)  # the strategy of modules
    whole = wirelessdl.simulate(base, out=tmp_path / "whole", **{key: make()})
    cut = stopped(base, tmp_path / "cut", 22, **{key: make()})
    with pytest.raises(ScenarioError, match=rf"an object that no file can make again; hand it in: {key}=\.\.\. of"):
        wirelessdl.resume(cut.path)
    with pytest.raises(ContractError, match="gave other values than before the interruption"):
        wirelessdl.resume(cut.path, **{key: edited()})
    assert_same_tables(wirelessdl.resume(cut.path, **{key: again()}).path, whole.path)


def test_a_learner_of_an_opened_run_takes_the_model_that_its_directory_cannot_make():
    net = notebook_class(NET, "Net")
    run = wirelessdl.simulate(scenario().replace(THREADS), out=None, model=net)
    opened = wirelessdl.open_run(run.path)
    with pytest.raises(ScenarioError, match=r"hand it in: model=\.\.\. of simulate, resume, sweep and learner"):
        opened.learner()
    expected = run.learner().accuracy(run.final_models())
    np.testing.assert_array_equal(opened.learner(model=net).accuracy(run.final_models()), expected)


def test_an_object_that_its_directory_cannot_make_again_is_said():
    run = wirelessdl.simulate(scenario(), out=None, channel=Table(GAINS))
    (said,) = [text for text in run.summary["warnings"] if "handed in" in text]
    assert said == (
        "channel.models[0]: Table was handed in and cannot be made again from the run directory (its argument gains is "
        "an array): resume needs it again, channel=...; verify and report need nothing"
    )
    assert "class Table" in stored_source(run)  # to be read all the same
    assert not verify(run.path).problems


def test_a_run_of_this_session_still_has_its_objects(tmp_path):
    cut = stopped(long(24).replace(THREADS), None, 21, channel=Table(GAINS), model=Net(6, 3))
    done = wirelessdl.resume(cut)
    assert done.state == "done"
    assert done.learner().accuracy(done.final_models()).shape == (4,)
    del cut
    assert len(done.rounds) == 24
    kept = done.save(tmp_path / "kept")
    assert kept.summary == done.summary


def test_what_an_object_remembers_ends_with_its_run():
    counting = Counting()
    first, second = (wirelessdl.simulate(scenario(), out=None, channel=counting) for _ in range(2))
    assert counting.asked == 0
    assert first.links["gain"].tolist() == second.links["gain"].tolist()


def test_an_object_that_cannot_be_copied_is_used_itself_and_the_run_says_so():
    locked = Locked()
    run = wirelessdl.simulate(scenario(), out=None, channel=locked)
    assert locked.asked > 0
    assert [text for text in run.summary["warnings"] if "Locked cannot be copied (TypeError" in text]


def test_a_parameter_of_an_object_can_be_overridden():
    base = scenario().replace(channel=Corridor(2.0))
    changed = base.replace({"channel.models.0.exponent": 3.5})
    one, other = (wirelessdl.simulate(what, out=None) for what in (base, changed))
    assert one.scenario["channel"]["models"][0]["exponent"] == 2.0
    assert other.scenario["channel"]["models"][0]["exponent"] == 3.5
    assert (one.links["gain"] > other.links["gain"]).all()
    with pytest.raises(ScenarioError, match=r"gains is 3; Table was given as an object that cannot be made anew"):
        wirelessdl.simulate(
            scenario().replace({"channel.models": [Table(np.ones((4, 4)))]}).replace({"channel.models.0.gains": 3})
        )


def test_lines_of_callbacks_are_stored_to_be_read():
    heard = []

    def hear(event):
        heard.append(event.round)

    connect = {"learning.update": hear, "phy.rx": ignore, "net.state": heard.count}
    run = wirelessdl.simulate(scenario(), out=None, connect=connect)
    said = run.provenance["callbacks"]
    assert heard == [1, 2]
    assert (run.path / "models" / said["learning.update"]["source"]).read_text().startswith("def hear(event):")
    assert said["net.state"] == {"function": "list.count", "source": None}
    assert "def ignore(event):" in (run.path / "models" / said["phy.rx"]["source"]).read_text()
    assert not verify(run.path).problems


def ignore(event):
    del event


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"chanel": Corridor()}, "a scenario has no part chanel; did you mean channel?"),
        ({"channel": lambda links: links}, "channel.models[0] is the function <lambda>; must be an object"),
        ({"channel": amplitude}, "channel.models[0] is the function amplitude; must be an object"),
        ({"channel": Ring()}, "the class needs a method gain(links, time_s, rng)"),
        ({"channel": np.ones((4, 4))}, "channel.models[0] is the ndarray"),
        ({"model": {1, 2}}, "learning.model is the set"),
        ({"mobility": functools.partial(Drift, speed=3)}, "functools.partial of Drift: got an unexpected keyword"),
        ({"channel": functools.partial(amplitude, 3)}, "channel.models[0] is the function"),
        ({"channel": np}, "channel.models[0] is the module numpy"),
        ({"channel": "rayleig"}, 'channel.models[0].model is "rayleig"; no such model; did you mean rayleigh?'),
        ({"rounds": 3}, "no part rounds; did you mean robust? Values of keys go into overrides="),
        ({"zz": 3}, "a scenario has no part zz; values of keys go into overrides="),
        ({"overrides": [Corridor()]}, "must be values by key"),
        ({"channel": []}, "channel.models is []; must have at least 1 entries"),
    ],
)
def test_what_is_no_part_is_refused_in_one_line(parts, said, tmp_path):
    with pytest.raises(ScenarioError) as caught:
        wirelessdl.simulate(scenario(), out=tmp_path / "out", **parts)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_class_of_a_script_is_stored_to_be_read(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport wirelessdl\n\nclass Mine:\n    def gain(self, links, time_s, rng):\n"
        "        return np.full(len(links), 0.5)\n\n"
        "run = wirelessdl.simulate('quickstart', overrides={'scenario.rounds': 2}, channel=Mine())\nprint(run.path)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    run = wirelessdl.open_run(tmp_path / done.stdout.strip())
    said = run.provenance["objects"]["channel.models[0]"]
    assert (said["class"], said["resumes"]) == ("Mine", False)
    assert run.provenance["user_files"] == {}
    stored = (run.path / "models" / said["source"]).read_text()
    assert stored.startswith("class Mine:")
    assert "simulate" not in stored  # the class, not the script that would run again
    assert not verify(run.path).problems
