"""Scenarios and names from a stranger: numbers that do not fit, texts that are none, addresses that are not safe."""

import shutil

import pytest
from conftest import tiny, tiny_table

import wirelessdl
from wirelessdl.errors import DataError, ScenarioError, TraceError, quote
from wirelessdl.learning import draws
from wirelessdl.learning.data.fetch import download
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.scenario.overrides import apply_override


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(tiny(scenario={"rounds": 4}), out=tmp_path_factory.mktemp("run")).path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "scenario.name is missing"),
        ("[scenario]\nname = 3\n", "scenario.name is 3"),
        ('[scenario]\nname = "x"\nseed = 1\nrun = 1\nrounds = true\n', "scenario.rounds is True"),
        ("scenario = 5\n", "scenario.name is missing"),
        ("[scenario\n", "cannot be read"),
        ("a=" + "[" * 4000 + "]" * 4000, "cannot be read"),
    ],
)
def test_a_runs_scenario_that_is_not_whole_is_one_line(content, words, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "scenario.toml").write_text(content)
    with pytest.raises(TraceError, match=words):
        _ = wirelessdl.open_run(copy).scenario
    with pytest.raises(TraceError, match=words):
        _ = wirelessdl.open_run(copy).links


@pytest.mark.parametrize("nodes", [2, 3, 5, 10**9])
def test_another_number_of_nodes_than_the_tables_hold_is_one_line(nodes, run, tmp_path, wirelessdl_command):
    copy = shutil.copytree(run, tmp_path / "run")
    text = (copy / "scenario.toml").read_text()
    assert "nodes = 4" in text
    (copy / "scenario.toml").write_text(text.replace("nodes = 4", f"nodes = {nodes}"))
    for command in ("report", "verify"):
        said = wirelessdl_command(command, str(copy))
        assert said.code in (1, 2), said.out
        assert said.err.count("\n") <= 1
    if nodes < 4:
        with pytest.raises(TraceError, match=r"links name nodes beyond network\.nodes"):
            wirelessdl.open_run(copy).matrix("gain", 1)


def test_a_folder_named_like_a_checkpoint_is_none(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "checkpoint" / "round-000999.npz").mkdir()
    assert wirelessdl.resume(copy).summary["rounds"] == 4


def test_tables_within_tables_are_refused_before_they_are_walked(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text("[scenario]\nname = " + "[" * 100 + "]" * 100)
    with pytest.raises(ScenarioError, match="nested more than 20 deep"):
        load_scenario(file)
    file.write_text("a=" + "[" * 5000 + "]" * 5000)
    with pytest.raises(ScenarioError, match="nested too deeply"):
        load_scenario(file)


def test_names_that_look_like_markup_are_printed_as_they_are(wirelessdl_command, tmp_path):
    (tmp_path / "empty[/q]").mkdir(parents=True)
    said = wirelessdl_command("list", "empty[/q]")
    assert (said.code, said.out.strip()) == (0, "no runs in empty[/q]")


@pytest.mark.parametrize("key", ["model", "kind"])
def test_a_part_is_renamed_by_either_of_its_names(key):
    for written in ("softmax", {"model": "softmax"}, {"kind": "softmax"}):
        table = tiny_table(learning={"model": written})
        apply_override(table, f"learning.model.{key}=mlp")
        assert table["learning"]["model"] == {key: "mlp"}
    apply_override(table, "learning.model.hidden=[8]")
    apply_override(table, f"learning.model.{key}=mlp")
    assert table["learning"]["model"] == {"hidden": [8], key: "mlp"}


def test_messages_escape_control_characters_and_shorten_long_values():
    assert quote("a\x1b[31mb\nc") == r"a\x1b[31mb\nc"
    long = quote("x" * 10_000)
    assert (len(long), long.count("...")) == (200, 1)
    with pytest.raises(ScenarioError) as error:
        tiny(learning={"batch_size": "\x1b]0;title\x07" + "y" * 10_000})
    assert len(str(error.value)) < 400
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            {"learning": {"dataset": {"kind": "synthetic", "samples": 10**12}}},
            "learning.dataset.samples is 1000000000000",
        ),
        (
            {"learning": {"dataset": {"kind": "synthetic-regression", "samples": 10**12}, "model": "ridge"}},
            "needs .* of memory",
        ),
        ({"learning": {"model": {"model": "cnn", "channels": 10**6}}}, "learning.model: cnn does not fit into memory"),
        ({"network": {"nodes": 20_000}}, "network.nodes is 20000; needs .* of memory"),
    ],
)
def test_sizes_are_compared_with_memory_before_they_are_allocated(section, words):
    with pytest.raises(ScenarioError, match=words):
        build(tiny(**section))


def test_more_noise_than_there_are_counters_is_refused(monkeypatch):
    world = build(tiny(scenario={"rounds": 40}))
    row = world.scenario.network.nodes * world.learning.x.shape[1]
    monkeypatch.setattr(draws, "_COUNTERS", 2 * row * 41)  # two kinds of noise, and a round 0
    build(tiny(scenario={"rounds": 40}))
    with pytest.raises(ScenarioError, match="noise would repeat after 40 rounds"):
        build(tiny(scenario={"rounds": 41}))


@pytest.mark.parametrize("address", ["http://example.org/x.gz", "ftp://example.org/x.gz", "file:///etc/passwd"])
def test_data_come_over_https_only(address, tmp_path):
    with pytest.raises(DataError, match="only downloaded over https"):
        download(address, tmp_path / "x.gz", "0" * 32, lambda *_: None)
    assert list(tmp_path.iterdir()) == []
