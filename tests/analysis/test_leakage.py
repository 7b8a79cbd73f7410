"""What one node leaked over the rounds: per sender in the nodes table, and as a frame with a figure."""

import numpy as np
import pytest
from conftest import tiny

from wirelessdl import TraceError, simulate

EVALUATED = [3, 6, 9]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Sampling rates differ, so that of most senders no total is composed on the way."""
    learning = {"partition": {"kind": "dirichlet", "concentration": 1.0}, "eval_every": 3}
    return simulate(tiny(scenario={"rounds": 9}, learning=learning), out=tmp_path_factory.mktemp("runs"))


def test_bounds_of_every_sender_rise_to_exact_totals_below_them(run):
    nodes, rounds = run.nodes, run.rounds
    for view in ("own", "promised"):
        bound = nodes.pivot(index="round", columns="node", values=f"epsilon_{view}_bound")
        total = nodes.pivot(index="round", columns="node", values=f"epsilon_{view}_total")
        assert (bound.diff().dropna() >= 0).all().all()
        np.testing.assert_array_equal(bound.max(axis=1), rounds[f"epsilon_{view}_bound"])
        known = total.dropna().max(axis=1)  # of every sender
        np.testing.assert_array_equal(known, rounds.set_index("round")[f"epsilon_{view}_total"].loc[known.index])
        assert 9 in known.index
        assert set(total.dropna(how="all").index) <= set(EVALUATED)
        exact = total.notna()
        assert (total[exact] <= bound[exact]).sum().sum() == exact.sum().sum()
        stored = run.privacy.query("view == 'own'").sort_values("tx")["epsilon_total"]
        np.testing.assert_array_equal(total.loc[9], stored)


def test_leakage_of_a_sender_is_exact_at_every_evaluation(run):
    for tx in range(4):
        found = run.leakage(tx, rx=(tx + 1) % 4)
        assert found["round"].tolist() == list(range(1, 10))
        exact = found.set_index("round")["epsilon_promised_total"].dropna()
        assert exact.index.tolist() == EVALUATED
        assert (exact.diff().dropna() > 0).all()
        links = run.links.query(f"tx == {tx} and rx == {(tx + 1) % 4}")
        np.testing.assert_array_equal(found["epsilon_link"], links["epsilon"])
        assert found.attrs["adversary"] == run.summary["adversary"]
    worst = run.rounds.set_index("round")["epsilon_promised_total"].dropna()
    every = [run.leakage(tx).set_index("round")["epsilon_promised_total"] for tx in range(4)]
    np.testing.assert_allclose(np.max(every, axis=0)[[2, 5, 8]], worst, rtol=1e-9)


def test_the_figure_shows_total_and_slots(run):
    axis = run.plot("leakage", links=[(3, 1)])
    assert len(axis.figure.axes) == 2
    assert axis.get_title(loc="left") == "node 3, proven, against all other nodes"
    slot = axis.figure.axes[1]
    assert len(slot.lines[0].get_xdata()) == 9
    assert len(run.plot("leakage").figure.axes) == 1


def test_the_figure_names_its_adversary_and_why_a_slot_has_no_epsilon(tmp_path):
    radio = {"objective": "own-noise"}
    pairs = tiny(privacy={"noise": "pairwise", "coalition": 2}, power=radio, network={"topology": "ring"})
    run = simulate(pairs, out=tmp_path)
    assert run.plot("leakage", links=[(3, 2)]).get_title(loc="left") == "node 3, proven, against any 2 nodes"
    for rx, words in ((2, "one slot has no epsilon under these settings"), (1, "no link from 3 to 1 in the tables")):
        slot = run.plot("leakage", links=[(3, rx)]).figure.axes[1]
        assert [text.get_text() for text in slot.texts] == [words]


@pytest.mark.parametrize(
    ("tx", "rx", "words"), [(4, None, "tx is 4; must be a node"), (0, -1, "rx is -1"), (True, 0, "tx")]
)
def test_a_node_that_does_not_exist_is_one_line(run, tx, rx, words):
    with pytest.raises(TraceError) as caught:
        run.leakage(tx, rx)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
