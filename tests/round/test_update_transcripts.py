"""Updates that see no data (kind base) tell exactly what is charged, in drawn scenarios.

The joint Gaussian of whole transcripts (`exact_transcripts`), in which all that an update works with is heard, too:
received models, base and point. Late nodes, crashes, rounds without a step, uncollected nodes, failing hubs, servers.
"""

import exact_transcripts
import numpy as np
import pytest
from conftest import mostly_slow, over, tiny
from exact_transcripts import Transcript

UPDATES = ("momentum", "nesterov", "weight-decay", "push-sum")
SCENARIOS = 120  # drawn
# of these, the node that is attacked crashes before it sends a gradient, or no hub reaches it
SILENT = {40, 50, 101, 111}
OWN = {"noise": "independent"}
PAIRS = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4}


def toy(update, **sections):
    base = {
        "network": {"nodes": 4, "placement": {"kind": "disc", "radius_m": 150}},
        "radio": {"power_dbm": 23},
        "learning": {"update": update},
        "time": {"policy": {"kind": "deadline", "cap_s": 0.012}},
    }
    return tiny(**exact_transcripts.toy(**over(base, sections)))


def drawn(number):
    """A scenario with one of the updates, drawn from most of what a run can have, and the node that is attacked."""
    rng = np.random.default_rng(number)

    def pick(*options):
        return options[rng.integers(len(options))]

    update, nodes = UPDATES[number % len(UPDATES)], int(rng.integers(4, 7))
    late, crashed, third = (int(node) for node in rng.permutation(nodes)[:3])
    mixed = update == "push-sum"  # its weight is mixed in one slot of a round: no passes, and nobody one at a time
    alignment = "all" if mixed else pick("all", "hubs", "turns", "none", "server")
    at_once = alignment in ("all", "none")
    radio, network = {"alignment": alignment}, {"nodes": nodes}
    radio["csi"] = {"kind": "pilots", "symbols": 4} if alignment == "none" else pick("perfect", {"kind": "pilots"})
    radio["phase_error_rad"] = 0.0 if alignment == "none" else pick(0.0, 0.2)
    once = mixed or alignment == "server"
    radio["mixing_passes"], closing = (0, 0) if once else (pick(0, 0, 2), pick(0, 0, 2))
    if at_once:
        radio |= {"control_failure": pick(0.0, 0.2)} if alignment == "all" else {"antennas": pick(1, 4)}
    else:
        radio |= {"truncate_snr_db": pick(12, 18, 24), "subslots": 1}
        radio |= {"hub_failure": pick(0.0, 0.3)} if alignment != "turns" else {}
    if alignment == "server":
        network["server"] = {"at": "center", "down": pick([], [[3, 4]]), "without": pick("wait", "hubs")}
    crashes = [
        {"node": crashed, "at_s": at + float(rng.uniform(0.0, 0.02)), "for_s": 0.012}
        for at in pick((), (0.002,), (0.002, 0.04))
    ]
    compute = [pick(0.01, 0.025) if node == late else 0.01 for node in range(nodes)]
    budget = {"budget_total": pick(np.inf, 1.5)} if not closing else {}
    keys = {"momentum": float(rng.uniform(0.0, 0.95))} if update in ("momentum", "nesterov") else {}
    scenario = toy(
        update,
        scenario={"seed": number},
        network=network,
        radio=radio,
        power={"schedule": pick("static", "adaptive") if at_once else "static"},
        privacy={**pick(OWN, PAIRS, {**PAIRS, "pairs": "neighbours"}), **budget},
        learning={"closing_passes": closing, **keys},
        time={"compute": {"kind": "constant", "seconds": compute}},
        faults={"rejoin": pick("listen", "keep"), "crashes": {"kind": "schedule", "events": crashes}},
    )
    return scenario, pick(late, crashed, third)


@pytest.mark.parametrize("number", mostly_slow(range(SCENARIOS), *range(12)))
def test_all_that_is_heard_and_worked_with_tells_exactly_what_is_charged(number):
    scenario, node = drawn(number)
    transcript = Transcript(scenario, node)
    others = [k for k in range(transcript.world.nodes) if k != node]
    own = transcript.charged("own")
    assert own > 0 or number in SILENT
    assert transcript.mu(others) == pytest.approx(own, rel=1e-6)  # least squares of about a hundred numbers
    if scenario.privacy.noise.name == "pairwise":
        assert max(transcript.mu((other,)) for other in others) <= transcript.charged() * (1 + 1e-6)


@pytest.mark.parametrize("update", ["momentum", "nesterov"])
def test_memory_of_models_that_were_never_sent_is_seen(update):
    """Momentum on x in place of s: the base holds a gradient whose noise is that of no release."""
    for mistake, least, most in ((None, 1 - 1e-6, 1 + 1e-6), ("momentum of x", 1.05, np.inf)):
        transcript = Transcript(toy(update), 1, mistake)
        assert least < transcript.mu((0, 2, 3)) / transcript.charged("own") < most
