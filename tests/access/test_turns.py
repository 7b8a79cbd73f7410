"""Receivers in turn: Metropolis weights, noise of the weakest neighbour, as many turns and as much epsilon as TDMA."""

import numpy as np
import pytest
import torch
from interrupting import assert_resumes

from wirelessdl.access.tdma import coloring
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.announced import announced_rms, send_announced
from wirelessdl.radio.frame import Participation
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine
from wirelessdl.scenario.loader import load_scenario

STILL = [
    "network.nodes=6",
    "network.topology={kind='erdos-renyi',p=0.6}",
    "channel.models=[{model='log-distance'}]",
    "network.placement={kind='disc',radius_m=60}",
    "radio.alignment=turns",
    "radio.truncate_snr_db=-inf",
    "learning.dtype=float64",
]


def decided(*overrides, seed=3):
    """World and decision of the first frame."""
    scenario = load_scenario("quickstart", overrides=[*STILL, f"scenario.seed={seed}", *overrides])
    world = build(scenario, device="cpu")
    engine = make_engine(world)
    engine.open_frame(1, 0, Participation.everyone(world.nodes))
    return world, engine._decision


def received(steps, sent, rng=None):
    """What nodes hold after all steps of a pass, and W radiated; without receiver noise unless an rng is given."""
    held, radiated = sent.clone(), torch.zeros(len(sent), dtype=torch.float64)
    before = held
    for step in steps:
        if step.opens:
            before = held.clone()
        shape = (len(np.unique(step.rx)), sent.shape[1])
        noise = torch.zeros(shape, dtype=torch.float64) if rng is None else torch.from_numpy(rng.standard_normal(shape))
        power, _ = send_announced(step, held, noise, before)
        radiated = torch.maximum(radiated, power)
    return held, radiated


def metropolis_by_loops(links):
    degree = [int((links.rx == node).sum()) for node in range(links.nodes)]
    weights = np.eye(links.nodes)
    for rx, tx in zip(links.rx.tolist(), links.tx.tolist()):
        weights[rx, tx] = 1.0 / (1.0 + max(degree[rx], degree[tx]))
        weights[rx, rx] -= weights[rx, tx]
    return weights


def test_weights_are_those_of_metropolis():
    world, decision = decided()
    weights = metropolis_by_loops(decision.channel.links)
    sent = torch.from_numpy(np.random.default_rng(1).standard_normal((world.nodes, 501)))
    held, _ = received(decision.carried.announced, sent)
    np.testing.assert_allclose(held.numpy(), weights @ sent.numpy(), atol=1e-12)


def test_all_turns_send_what_was_held_before_also_where_the_first_turn_has_nobody_to_align_to():
    """Two nodes in range of each other, whose turns are the third and the fourth."""
    world, decision = decided(
        "network.nodes=5",
        "network.topology=full",
        "network.placement={kind='disc',radius_m=200}",
        "radio.thermal_noise=true",
        "radio.power_dbm=0",
        "radio.truncate_snr_db=15",
        seed=7,
    )
    steps, color = decision.carried.announced, coloring(decision.channel.links)
    assert [color[step.aim[0]] for step in steps] == [2, 3]
    sent = torch.from_numpy(np.random.default_rng(1).standard_normal((world.nodes, 501)))
    held, _ = received(steps, sent)
    one, other = (int(step.aim[0]) for step in steps)
    expected = sent.clone()
    expected[[one, other]] = 0.5 * (sent[one] + sent[other])
    np.testing.assert_allclose(held.numpy(), expected.numpy(), atol=1e-12)


def test_there_are_as_many_turns_as_under_tdma():
    world, decision = decided()
    assert len(decision.carried.announced) == coloring(world.links).max() + 1
    tdma = build(load_scenario("quickstart", overrides=[*STILL[:4], "scenario.seed=3", "radio.access=tdma"]))
    assert tdma.frame.turns == len(decision.carried.announced)


def test_receiver_noise_is_that_of_the_weakest_neighbour():
    """Variance N0 max_j (W_ij rho_j / (|h_ij| sqrt(P_j)))^2 per coordinate; 6 x 400,000 draws: 0.23% of deviation."""
    world, decision = decided("radio.thermal_noise=true", "radio.power_dbm=-40")
    links, weights = decision.channel.links, metropolis_by_loops(decision.channel.links)
    sent = torch.from_numpy(np.random.default_rng(1).standard_normal((world.nodes, 400_000)))
    rho = announced_rms(sent).numpy()
    held, radiated = received(decision.carried.announced, sent, np.random.default_rng(2))
    noise = held.numpy() - weights @ sent.numpy()
    gain = links.matrix(decision.channel.gain)
    for rx in range(world.nodes):
        senders = links.tx[links.rx == rx]
        expected = max(weights[rx, tx] * rho[tx] / (gain[rx, tx] * np.sqrt(world.power_w[tx])) for tx in senders)
        assert noise[rx].std() == pytest.approx(expected * np.sqrt(world.thermal_w), rel=0.01)
    assert (radiated.numpy() <= world.power_w * (1 + 1e-9)).all()
    assert radiated.numpy().max() > 0.9 * world.power_w.max()


def test_totals_are_those_of_tdma(tmp_path):
    kept, pairs = {}, ["privacy.noise=pairwise", "privacy.coalition=1", "privacy.pair_ratio=1.4", "scenario.rounds=6"]
    for name, overrides in {"turns": STILL, "tdma": [*STILL[:4], "radio.access=tdma"]}.items():
        scenario = load_scenario("quickstart", overrides=[*overrides, *pairs, "learning.dtype=float64"])
        kept[name] = simulate(scenario, out=tmp_path / name).summary
    for key in ("epsilon_own_total", "epsilon_coalition_total"):
        assert kept["turns"][key] == kept["tdma"][key] > 0
    assert kept["turns"]["epsilon_coalition_total"] < kept["turns"]["epsilon_own_total"]
    assert kept["turns"]["epsilon_link_max"] is None


def test_receivers_of_one_turn_hear_each_others_senders():
    """On a line of far apart pairs two receivers share a turn; under physical interference each hears both senders."""
    overrides = [
        "network.nodes=8",
        "network.topology=ring",
        "radio.interference=physical",
        "radio.truncate_snr_db=-inf",
    ]
    _, decision = decided(*overrides)
    shared = [step for step in decision.carried.announced if len(np.unique(step.aim)) > 1]
    assert shared
    for step in shared:
        beside = step.aim != step.rx
        assert beside.any()
        assert np.isin(step.rx[beside], step.aim).all()


def test_pilots_and_announcements_are_paid_for_in_every_pass_closing_ones_among_them():
    _, once = decided("scenario.rounds=1")
    _, thrice = decided("scenario.rounds=1", "learning.closing_passes=2")
    for name in ("payload_ns", "pilot_ns"):
        one, three = (getattr(given.carried.airtime, name) for given in (once, thrice))
        np.testing.assert_allclose(three, 3 * one, atol=3)  # ns, rounded down in every pass


def test_a_resumed_run_is_the_whole_run(tmp_path):
    overrides = [
        *STILL,
        "channel.models=[{model='log-distance'},{model='rayleigh',coherence_s=0.001}]",
        "radio.csi={kind='pilots',symbols=4}",
        "radio.thermal_noise=true",
        "scenario.rounds=6",
        "radio.mixing_passes=1",
    ]
    assert_resumes(load_scenario("quickstart", overrides=overrides), tmp_path, 3)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("power.objective=sum", "solves for single senders"),
        ("power.schedule=adaptive", "static"),
        ("radio.use_full_power=true", "full power"),
        ("radio.subbands=4", "whole band"),
        ("radio.payload_slots=2", "subslots"),
        ("radio.timing_error_s=2e-7", "0.2 symbols, .*: set it to 1.67e-07 or less"),
    ],
)
def test_what_does_not_go_together_is_refused(override, words):
    with pytest.raises(ScenarioError, match=words):
        load_scenario("quickstart", overrides=["radio.alignment=turns", override])
