"""Hubs in whole runs: what is charged is what all that was sent and shown tells; one holding per node.

The joint Gaussian of whole transcripts (`exact_transcripts`): failing hubs, nodes out of reach, crashes, late nodes.
"""

from itertools import combinations

import numpy as np
import pytest
from conftest import mostly_slow, tiny
from exact_transcripts import Transcript

NODES, ROUNDS = 6, 5
LATE = {
    "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.01, 0.01, 0.025, 0.01]},
    "policy": {"kind": "deadline", "cap_s": 0.012},
}
CRASH = {"kind": "schedule", "events": [{"node": 5, "at_s": 0.05, "for_s": 0.01}]}


def hubs(**sections):
    """Six nodes on Rayleigh fading, of which some are out of reach in most rounds."""
    table = {
        "scenario": {"name": "hubs", "seed": 3, "rounds": ROUNDS},
        "network": {"nodes": NODES, "topology": {"kind": "full"}, "placement": {"kind": "disc", "radius_m": 150}},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"thermal_noise": True, "alignment": "hubs", "truncate_snr_db": 18, "power_dbm": 23, "subslots": 1},
        "power": {"objective": "own-noise", "alpha_min": 1e-6},
        "privacy": {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 1.0, "rho": 1.0},
        "learning": {
            "sampling": "full",
            "dtype": "float64",
            "eval_every": 1,
            "learning_rate": {"kind": "inverse-sqrt", "initial": 0.05},
        },
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section}
    return tiny(**table)


def worst(transcript, size):
    """mu of the coalition that learns most, of those of so many nodes."""
    others = [k for k in range(transcript.world.nodes) if k != transcript.node]
    return max(transcript.mu(coalition) for coalition in combinations(others, size))


def radio(**changes):
    return {"radio": changes}


TWO = {"privacy": {"coalition": 2}}
CASES = {
    "there": {},
    "two collude": TWO,
    "there and back": radio(hub_order="there-and-back"),
    "failing hubs, passes": radio(hub_failure=0.5, mixing_passes=1),
    "failing hubs, rotation, closing passes": {
        **radio(hub_failure=0.3, hub_rotation=True),
        "learning": {"closing_passes": 2},
    },
    "nodes out of reach": radio(truncate_snr_db=26),
    "nodes out of reach, failing hubs": {**radio(truncate_snr_db=24, hub_failure=0.4), **TWO},
    "pilots, phase errors, carriers apart": radio(
        csi={"kind": "pilots", "symbols": 4}, phase_error_rad=0.2, cfo_hz=[3.0, -2.0, 1.0, 0.0, 5.0, -4.0]
    ),
    "late nodes, crashes, listening": {
        **radio(hub_failure=0.2),
        "time": LATE,
        "faults": {"rejoin": "listen", "crashes": CRASH},
    },
    "late nodes, crashes, out of reach, models kept": {
        **radio(truncate_snr_db=24),
        "time": LATE,
        "faults": {"rejoin": "keep", "crashes": CRASH},
    },
    "a crash within the frame": {
        "faults": {
            "rejoin": "keep",
            "crashes": {"kind": "schedule", "events": [{"node": 5, "at_s": 0.0002, "for_s": 0.01}]},
        }
    },
    "pairs of groups": {**radio(truncate_snr_db=24), "privacy": {"pairs": {"groups": 2}}},
    "pairs of neighbours": {**radio(truncate_snr_db=24), "privacy": {"pairs": "neighbours"}},
    "four nodes": {"network": {"nodes": 4}, **radio(hub_failure=0.3, hub_order="there-and-back")},
    "five nodes, unequal powers": {
        "network": {"nodes": 5},
        **radio(truncate_snr_db=20, power_dbm=[23, 17, 26, 20, 23]),
    },
    "budgets that end": {"privacy": {"budget_total": 1.2}},
}
QUICK = ("failing hubs, passes", "nodes out of reach", "late nodes, crashes, listening")


@pytest.mark.parametrize("case", mostly_slow(CASES, *QUICK))
@pytest.mark.parametrize("node", [0, 3, 4])
def test_all_that_is_sent_and_shown_tells_no_more_than_the_charge(case, node):
    if node >= CASES[case].get("network", {}).get("nodes", NODES):
        pytest.skip("no such node")
    scenario = hubs(**CASES[case])
    size = scenario.privacy.coalition
    # with every w, whether or not it was sent by itself: the charge bounds that too
    for hears_w in (False, True):
        transcript = Transcript(scenario, node, hears_w=hears_w)
        charged, own = transcript.charged(), transcript.charged("own")
        for colluding in range(size + 1):
            assert worst(transcript, colluding) <= charged * (1 + 1e-6)
        everyone = [k for k in range(transcript.world.nodes) if k != node]
        assert transcript.mu(everyone) <= own * (1 + 1e-6)
    if charged:
        assert transcript.mu(everyone) == pytest.approx(own, rel=1e-6)  # and no more than it must be
        assert worst(transcript, size) >= 0.8 * charged


def test_cases_have_what_they_are_for():
    """Hubs fail, nodes are out of reach with a step pending and send it later, listeners hear, late nodes stay away."""
    seen = Transcript(hubs(**CASES["failing hubs, passes"]), 0)
    failed = [not step.ratio.any() for given in seen.given for step in given.announced]
    assert 0 < sum(failed) < len(failed)
    seen = Transcript(hubs(**CASES["nodes out of reach"]), 0)
    away = np.array([one.air.uncovered for one in seen.decisions])
    assert away[1:].any(axis=0).sum() >= 2
    assert (away[:-1] & ~away[1:]).any()
    seen = Transcript(hubs(**CASES["late nodes, crashes, listening"]), 0)
    assert any((one.participation.listening & one.weights.heard).any() for one in seen.decisions)
    assert any((one.participation.up & ~one.participation.ready).any() for one in seen.decisions)
    seen = Transcript(hubs(**CASES["a crash within the frame"]), 0)
    assert any(((given.update.step == 0) & one.on_air).any() for one, given in zip(seen.decisions, seen.given))
    seen = Transcript(hubs(**CASES["budgets that end"]), 0)
    assert not seen.decisions[-1].on_air.any()


MISTAKES = {
    "hub adds x": radio(hub_order="there-and-back"),
    "uncovered node sends x": radio(truncate_snr_db=24),
    "fresh noise after a failure": radio(hub_failure=0.5, mixing_passes=1),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(mistake):
    scenario = hubs(**MISTAKES[mistake])
    found = [Transcript(scenario, node, mistake) for node in range(NODES)]
    over = [worst(transcript, 1) / transcript.charged() for transcript in found if transcript.charged()]
    assert max(over) > (1.1 if mistake == "fresh noise after a failure" else 10.0)
