"""Sound runs of every kind are not refused: what resume and verify hold a stranger's run to, ours always meet."""

import pytest
from conftest import tiny

from wirelessdl.analysis.verify import verify
from wirelessdl.errors import RunInterrupted
from wirelessdl.run.session import resume, simulate

BASE = {
    "scenario": {"name": "tiny", "seed": 3, "rounds": 45},
    "trace": {"checkpoint_every": 20, "flush_every": 20},
    "learning": {"batch_size": 8, "eval_every": 15},
}
SYNTHETIC = {"kind": "synthetic", "samples": 400, "features": 6, "classes": 3, "test_samples": 100}


def small(**keys):
    return {**BASE["learning"], "dataset": SYNTHETIC, **keys}


CASES = {
    "inf": {"privacy": {"epsilon_max": float("inf")}},
    "links none": {"trace": {**BASE["trace"], "links": "none"}},
    "links evaluated": {"trace": {**BASE["trace"], "links": "evaluated"}},
    "physical": {
        "radio": {"interference": "physical", "thermal_noise": True, "power_dbm": 20},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    },
    "range zero gains": {
        "channel": {"models": [{"model": "log-distance"}, {"model": "range", "range_m": 60.0}]},
        "power": {"objective": "own-noise"},
    },
    "poisson": {"learning": small(sampling="poisson")},
    "full": {"learning": small(sampling="full")},
    "shuffled": {"learning": small(sampling="shuffled")},
    "paper": {"privacy": {"protocol": "paper", "clipping": "batch", "epsilon_max": 1.0}, "power": {"balance": False}},
    "ridge": {
        "learning": {
            **BASE["learning"],
            "dataset": {"kind": "synthetic-regression", "samples": 400},
            "model": "ridge",
            "regret": True,
        }
    },
    "tdma": {"radio": {"access": "tdma"}, "power": {"objective": "own-noise"}},
    "half": {"radio": {"duplex": "half"}},
    "budget": {"privacy": {"epsilon_max": 1.0, "budget_total": 0.1}, "power": {"objective": "own-noise"}},
    "crash listen late": {
        "faults": {
            "crashes": {"kind": "exponential", "up_s": 0.03, "down_s": 0.01},
            "rejoin": "listen",
            "stragglers": {"kind": "random", "probability": 0.4, "factor": 3.0},
        },
        "time": {"compute": {"kind": "constant", "seconds": 0.004}, "policy": {"kind": "clocked", "period_s": 0.01}},
        "learning": small(),
    },
    "crash keep": {
        "faults": {"crashes": {"kind": "exponential", "up_s": 0.03, "down_s": 0.01}, "rejoin": "keep"},
        "time": {"compute": {"kind": "constant", "seconds": 0.004}, "policy": {"kind": "deadline", "cap_s": 0.006}},
        "learning": small(),
    },
    "battery": {"energy": {"battery_j": 0.02}, "learning": small()},
    "multipliers mean": {"power": {"balance": False, "multiplier": "mean"}},
    "windowed": {"power": {"balance": False, "multiplier": "windowed"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_sound_run_is_verified_and_goes_on(case, tmp_path):
    rounds = []
    with pytest.raises(RunInterrupted) as stopped:
        simulate(
            tiny(**{**BASE, **CASES[case]}), out=tmp_path, on_round=rounds.append, should_stop=lambda: rounds[-1] >= 33
        )
    assert verify(stopped.value.folder).problems == ()
    assert resume(stopped.value.folder).summary["rounds"] == 45
    assert verify(stopped.value.folder).problems == ()
