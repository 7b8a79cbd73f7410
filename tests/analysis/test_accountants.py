"""The data split, shares of noise and totals, from traces: they arrive at what the run itself computed."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import tiny

from wirelessdl import open_run, simulate
from wirelessdl.analysis.releases import data_split, promised_totals, share_problems
from wirelessdl.errors import TraceError
from wirelessdl.privacy.terms import PrivacyAssumptions


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(tiny(scenario={"rounds": 8}), out=tmp_path_factory.mktemp("runs"))


def own_totals(run):
    return run.privacy.query("view == 'own'").sort_values("tx")["epsilon_total"].to_numpy()


def test_totals_from_traces_are_those_stored(run):
    found, stored = promised_totals(run), own_totals(run)
    assert found.epsilon["pld"] == pytest.approx(stored)
    assert found.epsilon["rdp-wang19"].max() == pytest.approx(run.rounds["epsilon_own_bound"].iloc[-1])
    assert set(found.epsilon) == {"pld", "rdp-wang19", "rdp", "gdp"}
    assert np.all(found.epsilon["gdp"] >= found.epsilon["pld"])
    assert found.note == ""
    assert list(promised_totals(run, others=False).epsilon) == ["pld"]


@pytest.mark.parametrize(
    "sections",
    [
        {
            "channel": {"models": [{"model": "uniform"}, {"model": "rayleigh"}]},
            "power": {"schedule": "adaptive"},
            "privacy": {"epsilon_max": 2.0, "budget_total": 0.35},
            "learning": {"partition": {"kind": "dirichlet", "concentration": 1.0}},
        },
        {"learning": {"partition": {"kind": "quantity", "concentration": 1.0}}, "privacy": {"clipping": "batch"}},
    ],
    ids=["silence and fading", "unequal sampling rates"],
)
def test_totals_follow_what_was_sent_and_sampled(sections, tmp_path):
    run = simulate(tiny(scenario={"rounds": 12}, **sections), out=tmp_path)
    if "budget_total" in sections["privacy"]:
        assert not run.nodes["transmitted"].all(), "nobody fell silent: the test shows nothing"
    else:
        assert run.clients["sampling_rate"].nunique() > 1, "all sample alike: the test shows nothing"
    found = promised_totals(run, others=False)
    assert found.note == ""
    assert found.epsilon["pld"].max() == pytest.approx(run.summary["epsilon_own_total"])


@pytest.mark.parametrize("column", ["sampling_rate", "sensitivity"])
def test_a_table_that_does_not_lead_to_the_stored_totals_never_gives_smaller_ones(column, run, tmp_path):
    path = rewritten(run, tmp_path, lambda frame: frame.assign(**{column: 0.5 * frame[column]}))
    found = promised_totals(open_run(path))
    assert "do not lead to the stored totals" in found.note
    assert list(found.epsilon) == ["pld"]
    assert (found.epsilon["pld"] >= own_totals(run)).all()


def test_the_split_is_the_one_the_run_learned_from(run):
    split = data_split(run)
    assert split.rate == pytest.approx(8 / split.counts.sum(axis=1))
    assert split.counts.shape == (4, 10)
    assert split.counts.sum() == 12_000
    assert ((split.sensitivity > 2 / 8) & (split.sensitivity < 2 / 8 * (1 + 1e-5))).all()  # 2 C / B, and rounding
    assert split.terms == PrivacyAssumptions(
        "hardened", "without-replacement", "per-sample", run.scenario["privacy"]["delta_total"]
    )


def test_terms_follow_the_sampler(tmp_path):
    shuffled = simulate(tiny(learning={"sampling": "shuffled"}), out=tmp_path)
    split = data_split(shuffled)
    assert split.terms.sampler == "shuffled"
    assert split.terms.epoch_rounds == tuple(np.ceil(split.counts.sum(axis=1) / 8).astype(int))
    found = promised_totals(shuffled)
    assert (list(found.epsilon), found.note) == (["gdp"], "")
    assert found.epsilon["gdp"] == pytest.approx(own_totals(shuffled))
    full = simulate(tiny(learning={"sampling": "full"}, scenario={"name": "full"}), out=tmp_path)
    assert data_split(full).terms.sampler == "full-batch"


def rewritten(run, folder, change):
    """A copy of a run whose clients table somebody changed."""
    path = folder / "changed"
    shutil.copytree(run.path, path)
    (part,) = (path / "clients").iterdir()
    table = pq.ParquetFile(part).read()
    changed = type(table).from_pandas(change(table.to_pandas()), preserve_index=False).cast(table.schema)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), part)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame[:3], "clients: has 3 rows, network.nodes is 4"),
        (lambda frame: frame.assign(sampling_rate=1.5), "clients: sampling_rate is out of range"),
        (lambda frame: frame.assign(class_counts=[[1]] + [[1, 2]] * 3), "clients: class_counts is out of range"),
    ],
)
def test_a_damaged_clients_table_is_refused_in_one_line(change, words, run, tmp_path, wirelessdl_command):
    path = rewritten(run, tmp_path, change)
    with pytest.raises(TraceError, match=words):
        data_split(open_run(path))
    assert words in promised_totals(open_run(path)).note
    done = wirelessdl_command("plot", str(path), "--figure", "partition")
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_an_edited_scenario_has_no_terms(run, tmp_path):
    path = tmp_path / "edited"
    shutil.copytree(run.path, path)
    text = (path / "scenario.toml").read_text()
    (path / "scenario.toml").write_text(text.replace('sampling = "without-replacement"', 'sampling = "all"'))
    with pytest.raises(TraceError, match=r"learning\.sampling is 'all'; must be one of without-replacement, poisson"):
        data_split(open_run(path))


@pytest.mark.parametrize("coalition", [1, 3])
@pytest.mark.parametrize("pairs", ["all", "neighbours", {"groups": 2}], ids=["all", "neighbours", "groups"])
def test_shares_of_a_run_follow_from_who_was_on_air(pairs, coalition, tmp_path):
    privacy = {"noise": "pairwise", "pairs": pairs, "coalition": coalition, "pair_ratio": 1.0, "rho": 1.0}
    given = tiny(power={"objective": "own-noise", "alpha_min": 1e-9}, privacy={**privacy, "epsilon_max": 1.0})
    run = simulate(given, out=tmp_path)
    assert list(share_problems(run, data_split(run))) == []
