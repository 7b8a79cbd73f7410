"""Digital access in runs with crashes, several slots and fades to nothing: time, blocks and what is charged."""

import numpy as np
import pytest
import tomli_w
from conftest import tiny_table

from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import load_scenario

# gains of the sender 0 are nothing at every other instant; time must not go back
SCRIPT = """
import numpy as np

class Fades:
    small_scale = True
    def __init__(self, every: int = 1):
        self.every, self.calls, self.last_s = every, 0, 0.0
    def gain(self, links, time_s, rng):
        assert time_s >= self.last_s, f"asked for {time_s} s after {self.last_s} s"
        self.calls, self.last_s = self.calls + 1, time_s
        silent = (links.tx == 0) & (self.calls // self.every % 2 == 0)
        return np.where(silent, 0.0, 1e-4)
"""
SMALL = {"dataset": {"kind": "synthetic", "features": 30, "samples": 200, "classes": 3}, "batch_size": 6}
RADIO = {"access": "digital", "power_dbm": 10, "thermal_noise": True, "rate_bps_hz": 2.0}


def scripted(folder, every=1, **sections):
    (folder / "script.py").write_text(SCRIPT)
    table = {
        "channel": {"models": [{"model": "script.py:Fades", "every": every}]},
        "radio": RADIO,
        "power": {"objective": "own-noise"},
        "learning": SMALL,
        "scenario": {"rounds": 4},
        "time": {"compute": {"kind": "constant", "seconds": 1e-6}},
    }
    (folder / "fades.toml").write_text(tomli_w.dumps(tiny_table(**{**table, **sections})))
    return simulate(load_scenario(folder / "fades.toml"), out=folder / "out")


def test_a_message_that_comes_with_a_repetition_is_charged_on_its_link(tmp_path):
    """Whatever the gain of the first attempt: what arrives is the release, with the sender's noise alone."""
    run = scripted(tmp_path)
    links = run.links[run.links["round"] > 1]
    late = links[links["decoded_in"] == 2]
    assert len(late)
    assert (late["gain"] == 0).all()
    own = run.rounds.set_index("round")["epsilon_own_max"]  # all nodes have the same sensitivity and noise
    assert (own[late["round"]] > 0).all()
    np.testing.assert_allclose(links["epsilon"], own[links["round"]], rtol=1e-12)


@pytest.mark.parametrize("access", ["digital", "tdma"])
def test_blocks_have_a_row_for_every_slot(access, tmp_path):
    radio = {**RADIO, "access": access, "payload_slots": 3}
    run = scripted(tmp_path, every=100, radio=radio, trace={"blocks": True})
    rows = run.blocks.groupby(["round", "tx", "rx"])["slot"].agg(list)
    assert set(map(tuple, rows)) == {(0, 1, 2)}
    worst = run.blocks.groupby(["round", "tx", "rx"])["epsilon"].max()
    traced = run.links.set_index(["round", "tx", "rx"])["epsilon"]
    np.testing.assert_array_equal(worst, traced[worst.index])


def test_time_never_goes_back_where_frames_are_shorter_than_planned(tmp_path):
    """Three of four nodes are gone: their turns are skipped, and frames end before the fixed time of the last slot."""
    events = [{"node": node, "at_s": 0.0005} for node in (1, 2, 3)]
    run = scripted(
        tmp_path,
        every=100,
        radio={**RADIO, "payload_slots": 8},
        faults={"crashes": {"kind": "schedule", "events": events}},
        scenario={"rounds": 6},
    )
    rounds = run.rounds
    assert rounds["active_nodes"].tolist()[-1] == 1
    assert rounds["airtime_s"].iloc[-1] < rounds["airtime_s"].iloc[0] / 3


def test_a_frame_without_messages_takes_the_time_that_its_row_says(tmp_path):
    """Budgets are spent: nobody sends, so a frame is feedback and the pilots that nobody sent."""
    run = scripted(
        tmp_path,
        every=100,
        radio={**RADIO, "guard_s": 1e-3},
        power={"objective": "own-noise", "schedule": "adaptive"},
        privacy={"budget_total": 0.1},
        scenario={"rounds": 12},
    )
    rounds = run.rounds
    silent = rounds[rounds["active_nodes"] == 0]
    assert len(silent) > 2
    assert (np.diff(rounds["time_s"]) > 0).all()
    waited = silent["feedback_s"] + silent["pilot_s"] + 2 * silent["guard_s"]
    np.testing.assert_allclose(silent["airtime_s"], waited, rtol=0, atol=1e-9)
    assert (silent["payload_s"] == 0).all()
    np.testing.assert_allclose(np.diff(silent["opened_s"]), silent["airtime_s"].iloc[:-1], rtol=0, atol=1e-9)
