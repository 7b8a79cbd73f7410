"""Studies of objects: varied parameters, varied objects, workers, resuming, bands."""

import functools
import pickle
import shutil
import subprocess
import sys
import threading
from unittest import mock

import matplotlib
import numpy as np
import pytest
from in_process import in_process, quick_table

import wirelessdl
from wirelessdl import StudyError
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.study.plan import make_plan
from wirelessdl.study.study_file import StudySpec, StudyTable


class Corridor:
    def __init__(self, exponent: float = 1.8):
        self.exponent = exponent

    def gain(self, links, time_s, rng):
        del time_s, rng
        return 10 ** (-(20 + 10 * self.exponent * np.log10(links.distance_m)) / 20)


class Table:
    def __init__(self, gains):
        self.gains = np.asarray(gains)

    def gain(self, links, time_s, rng):
        del time_s, rng
        return self.gains[links.rx, links.tx]


class Locked(Table):
    def __init__(self, gains):
        super().__init__(gains)
        self.lock = threading.Lock()


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wirelessdl.study.engine.open_cluster", in_process)
    return tmp_path


def base():
    return parse_scenario(quick_table())


def test_a_parameter_of_a_channel_object_is_varied_with_bands():
    study = wirelessdl.sweep(
        base(), channel=Corridor(), vary={"channel.models.0.exponent": [1.5, 2.5]}, seeds=3, local=False, out="study"
    )
    means = study.mean(by=["exponent"], of="accuracy")
    assert means["channel.models.0.exponent"].tolist() == [1.5, 2.5]
    assert (means["n"] == 3).all()
    assert (means["low"] < means["mean"]).all()
    axes = study.plot(x="exponent", y="accuracy")
    assert isinstance(axes, matplotlib.axes.Axes)
    assert len(axes.lines) + len(axes.collections) > 1  # a curve and its band
    matplotlib.pyplot.close(axes.figure)
    assert "6 of 6 runs finished" in study._repr_html_()
    run = study.runs()[3]
    assert run.scenario["channel"]["models"][0]["exponent"] == 2.5
    assert len(run.final_models()) == 4
    with pytest.raises(StudyError, match="the study study is there already"):
        wirelessdl.sweep(base(), out="study")


def test_objects_themselves_are_varied_also_those_that_only_this_session_knows():
    weak, strong = Table(np.full((4, 4), 0.2)), Table(np.full((4, 4), 0.9))
    study = wirelessdl.sweep(base(), vary={"channel": [weak, strong, Corridor(2.0)]}, local=False, out="study")
    assert study.index["channel.models"].nunique() == 3
    gains = [run.links["gain"].max() for run in study.runs()]
    assert gains[:2] == [0.2, 0.9]
    assert study.index["status"].tolist() == ["finished"] * 3


@pytest.mark.parametrize("given", [lambda: Corridor(2.0), lambda: Table(np.full((4, 4), 0.5))], ids=["file", "none"])
def test_an_object_is_handed_in_again_when_its_study_goes_on(given):
    study = wirelessdl.sweep(base(), channel=given(), seeds=2, local=False, out="study")
    before = study.runs()[1].rounds
    shutil.rmtree(study.path / study.index["path"][1])
    with pytest.raises(StudyError, match="channel"):
        wirelessdl.sweep(resume="study")
    again = wirelessdl.sweep(resume="study", channel=given())
    assert again.runs()[1].rounds.equals(before)


def test_runs_of_a_study_of_this_session_have_their_model_still():
    namespace = {"__name__": "__main__"}
    exec("import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n", namespace)
    learning = {"learning.strategy": "threads"}
    model = functools.partial(namespace["Net"], 6, 3)
    study = wirelessdl.sweep(base(), model=model, overrides=learning, local=False, out="study")
    (run,) = study.runs()
    assert run.learner().accuracy(run.final_models()).shape == (4,)


def test_an_object_that_cannot_leave_the_process_is_refused_before_anything_runs(here):
    with (
        mock.patch("wirelessdl.study.engine.open_cluster", side_effect=AssertionError("no workers yet")),
        pytest.raises(StudyError, match=r"Locked cannot be sent to worker processes: TypeError: cannot pickle"),
    ):
        wirelessdl.sweep(base(), channel=Locked(np.ones((4, 4))), out="study")
    assert not (here / "study").exists()


def test_a_part_of_a_file_reaches_workers_that_cannot_import_it(here, monkeypatch):
    (here / "only_here.py").write_text("class Only:\n    def gain(self, links, time_s, rng):\n        return 0.5\n")
    with monkeypatch.context() as session:
        session.syspath_prepend(here)
        from only_here import Only
    (part,) = make_plan(StudySpec(StudyTable(scenario=""), scenario=base().replace(channel=Only()))).pickled_parts
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(ModuleNotFoundError):
        import only_here  # noqa: F401
    assert pickle.loads(part).instance.gain(None, 0.0, None) == 0.5


def test_overrides_by_key_in_a_study_are_texts_in_its_manifest():
    study = wirelessdl.sweep("quickstart", overrides={"scenario.rounds": 2}, local=False, out="study")
    assert study.manifest["set"] == ["scenario.rounds=2"]
    assert study.manifest["scenario"] == "quickstart"
    assert wirelessdl.sweep(resume="study").finished.shape[0] == 1


@pytest.mark.slow
def test_processes_of_their_own_make_objects_of_main(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nimport wirelessdl\n\n"
        "class Source:\n    def __init__(self, gain):\n        self.level = np.array(gain)\n"
        "    def gain(self, links, time_s, rng):\n        return np.full(len(links), self.level)\n\n"
        "class Plain:\n    def __init__(self, level: float = 0.5):\n        self.level = level\n"
        "    def gain(self, links, time_s, rng):\n        return np.full(len(links), self.level)\n\n"
        "if __name__ == '__main__':\n"
        "    study = wirelessdl.sweep('quickstart', overrides={'scenario.rounds': 2}, local=False, jobs=2,\n"
        "                             vary={'channel': [Source(0.3), Plain(0.6)]})\n"
        "    print([float(run.links['gain'].max()) for run in study.runs()])\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0.3, 0.6]"
