"""The notebooks in examples run from top to bottom, and still say what their texts say."""

import re

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "examples").glob("*.ipynb"))}


def executed(name, folder):
    """All outputs of a notebook that was run in a folder of its own."""
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def figures_in(outputs):
    return [output for output in outputs if "image/png" in output.get("data", {})]


def text_of(outputs):
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "analysis"])  # which shows its figures
def test_a_notebook_is_stored_without_outputs(name):
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
    assert not re.search(r"/(home|root|Users|work|tmp)/", NOTEBOOKS[name].read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_notebook_on_analysis_draws_three_figures(tmp_path):
    outputs = executed("analysis", tmp_path)
    assert len(figures_in(outputs)) == 3
    said = "".join(output.get("text", "") for output in outputs)
    numbers = {line.partition(":")[0]: float(line.rpartition(" ")[2]) for line in said.splitlines() if ": " in line}
    # the text says that strong links help, and that not distance but the share decides what leaks
    assert numbers["correlation of accuracy with the best gain in dB"] > 0.3
    assert numbers["rank correlation with the share"] > 0.9 > abs(numbers["rank correlation with distance"]) + 0.2


@pytest.mark.slow
def test_the_notebook_on_first_runs_shows_runs_and_says_that_its_channel_is_handed_in_again(tmp_path):
    outputs = executed("first_run", tmp_path)
    shown = [output["data"]["text/html"] for output in outputs if "<svg" in output.get("data", {}).get("text/html", "")]
    assert len(shown) == 2
    assert all("quickstart" in page and "done, round 60 of 60" in page for page in shown)
    assert len(figures_in(outputs)) == 1
    assert "'resumes': False" in text_of(outputs)
    assert "'weight': (10, 784)" in text_of(outputs)
    assert list(tmp_path.iterdir()) == []  # runs in memory leave nothing


def test_a_channel_a_study_with_bands_and_its_models_take_less_than_25_lines():
    notebook = nbformat.read(NOTEBOOKS["own_channel_study"], as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert len([line for line in code.splitlines() if line.strip()]) < 25
    for what in ("class ", "sweep(", "study.plot(", "study.mean(", "final_models()", "learner()"):
        assert what in code


@pytest.mark.slow
def test_the_notebook_on_a_channel_object_makes_a_study_with_bands(tmp_path):
    outputs = executed("own_channel_study", tmp_path)
    assert len(figures_in(outputs)) == 1
    said = text_of(outputs)
    assert "low" in said
    assert "high" in said
    assert re.search(r"\d+\.\d% at epsilon 0\.\d+", said)
    assert (tmp_path / "outputs" / "quickstart-study" / "index.parquet").is_file()


@pytest.mark.slow
def test_the_notebook_on_privacy_states_every_view_and_audits(tmp_path):
    outputs = executed("privacy_views", tmp_path)
    said = text_of(outputs)
    accuracy = dict(re.findall(r"(own noise|shared noise): accuracy (\d+\.\d)%", said))
    assert float(accuracy["shared noise"]) > float(accuracy["own noise"])  # at the same promised epsilon
    assert len(set(re.findall(r"accuracy \d+\.\d%, epsilon (\S+) against", said))) == 1
    assert "any one node that hears every transmission" in said
    assert re.findall(r"(\w+): attack .* sound", said) == ["own"]
    assert "nothing is sent in this run, so there is no private release" in said
