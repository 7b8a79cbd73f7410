"""Shares of noise in the traces, against the roster: also where the coalition may hold all partners of a node."""

import pytest
from conftest import tiny

from wirelessdl.analysis.releases import data_split, share_problems
from wirelessdl.run.session import simulate


@pytest.mark.parametrize("coalition", [1, 3])
@pytest.mark.parametrize("pairs", ["all", "neighbours", {"groups": 2}], ids=["all", "neighbours", "groups"])
def test_shares_of_a_run_follow_from_who_was_on_air(pairs, coalition, tmp_path):
    privacy = {"noise": "pairwise", "pairs": pairs, "coalition": coalition, "pair_ratio": 1.0, "rho": 1.0}
    given = tiny(power={"objective": "own-noise", "alpha_min": 1e-9}, privacy={**privacy, "epsilon_max": 1.0})
    run = simulate(given, out=tmp_path, device="cpu")
    assert list(share_problems(run, data_split(run))) == []
