"""Extensions that are interrupted, whenever: they end where others end, and say that they are extensions."""

import shutil

import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.trace import files


class Killed(BaseException):
    """Stands for a kill: nothing is written from here on."""


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A run of two rounds."""
    return wirelessdl.simulate(tiny(), out=tmp_path_factory.mktemp("short")).path


@pytest.mark.parametrize("saved", [True, False], ids=["with checkpoints", "before the first checkpoint"])
@pytest.mark.parametrize("documents", range(4))
def test_an_extension_that_is_killed_between_two_documents_is_still_one(documents, saved, short, tmp_path, monkeypatch):
    """provenance.json, scenario.toml: the first of them to say 5 rounds must not hide that there were to be 2."""
    run = shutil.copytree(short, tmp_path / "run")
    if not saved:
        shutil.rmtree(run / "checkpoint")
        (run / "summary.json").unlink()
    written = []

    def whole(path, write, real=files.write_whole):
        if len(written) == documents:
            raise Killed
        real(path, write)
        written.append(path.name)

    with monkeypatch.context() as patch:
        patch.setattr("wirelessdl.trace.files.write_whole", whole)
        with pytest.raises(Killed):
            wirelessdl.resume(run, rounds=5)
    again = wirelessdl.resume(run)
    assert again.summary["rounds"] == (5 if "scenario.toml" in written else 2)
    assert warned(again) == ("scenario.toml" in written)
    longer = wirelessdl.resume(run, rounds=6)
    assert warned(longer)
    assert longer.provenance["extended"] == ([2, 5] if "scenario.toml" in written else [2])


def warned(run):
    return any("was extended from 2 to" in line for line in run.summary["warnings"])
