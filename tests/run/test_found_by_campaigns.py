"""What campaigns over combinations, kills and damages found (docs/reliability.md): each failed before it was mended."""

from conftest import tiny

from wirelessdl.run.session import simulate


def test_rounds_in_which_nobody_sends_stand_beside_rounds_with_self_interference(tmp_path):
    """A budget that is spent after some rounds: nothing is left of anyone's own emission in the others."""
    run = simulate(
        tiny(
            scenario={"rounds": 8},
            radio={"cancellation_db": 90.0},
            power={"objective": "own-noise"},
            privacy={"unit": "node", "budget_total": 1.5},
        ),
        out=tmp_path,
    )
    sent = run.nodes.groupby("round")["transmitted"].sum()
    assert sent.max() == 4
    assert sent.min() == 0
    heard = run.nodes["self_interference_w"]
    assert (heard.notna() == run.nodes["round"].map(sent > 0)).all()
    assert (heard[heard.notna()] > 0).all()


def test_a_clock_goes_on_though_nothing_is_sent(tmp_path):
    """Frames without a transmission take no time: every one of them was opened at time zero."""
    run = simulate(
        tiny(
            scenario={"rounds": 3},
            network={"topology": "none"},
            time={"policy": {"kind": "clocked", "period_s": 0.2}},
        ),
        out=tmp_path,
    )
    assert run.rounds["opened_s"].tolist() == [0.0, 0.2, 0.4]
