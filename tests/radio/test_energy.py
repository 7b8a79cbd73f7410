"""The control channel costs energy, and its messages may be lost: a node without a plan takes no part."""

import numpy as np
import pytest
from conftest import tiny, tiny_table
from interrupting import assert_resumes, assert_same_tables
from watching import Watched

import wirelessdl
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Links
from wirelessdl.mixing import mix, uniform_air
from wirelessdl.radio.energy import ControlLosses
from wirelessdl.round.multiplier import SparseMean, make_multiplier
from wirelessdl.run.build import build
from wirelessdl.streams import Streams

NUMBER_S = 16 / 1e7
SMALL = {"dataset": {"kind": "synthetic", "features": 6, "samples": 80, "classes": 3}, "batch_size": 4}
FADING = {"models": [{"model": "uniform"}, {"model": "rayleigh"}]}
ADAPTIVE = {
    "scenario": {"rounds": 40},
    "channel": FADING,
    "power": {"schedule": "adaptive", "alpha_min": 1e-9},
    "learning": {**SMALL, "learning_rate": {"kind": "inverse-sqrt", "initial": 0.1}},
}
LOSSY = {**ADAPTIVE, "radio": {"power_dbm": 30, "thermal_noise": False, "control_failure": 0.3}}


@pytest.fixture(scope="module")
def lossy():
    """Adaptive plans while three reports in ten are lost."""
    return Watched(tiny_table(**LOSSY)).run()


# --- energy


@pytest.mark.parametrize("failure", [0.0, 0.5])
def test_control_energy_equals_a_count_by_hand(failure, tmp_path):
    run = wirelessdl.simulate(
        tiny(
            scenario={"rounds": 6},
            network={"topology": {"kind": "star"}},  # node 0 hears three, the others one
            radio={"power_dbm": [10, 20, 20, 20], "csi": {"kind": "pilots", "symbols": 8}, "control_failure": failure},
            power={"schedule": "adaptive", "balance": False, "multiplier": "product", "alpha_min": 1e-9},
            energy={"efficiency": 0.5, "receive_w": 0.2},
            learning=SMALL,
        ),
        out=tmp_path,
    )
    assert run.nodes["report_lost"].any() == (failure > 0)
    listening_s = (run.rounds["pilot_s"] + run.rounds["payload_s"]).iloc[0]
    for row in run.nodes.itertuples():
        heard, sends_w = (3, 0.01) if row.node == 0 else (1, 0.1)
        numbers_sent, numbers_received = heard, 2  # gains up, alpha and weight down
        if not row.report_lost:
            numbers_sent, numbers_received = numbers_sent + 4, numbers_received + 4 * heard  # z
        expected = NUMBER_S * (numbers_sent * sends_w / 0.5 + numbers_received * 0.2)
        assert row.energy_control_j == pytest.approx(expected, rel=1e-12)
        # pilots come before reports: its own were sent, the others' were heard
        assert row.energy_pilot_j == pytest.approx(sends_w * 8e-6 / 0.5, rel=1e-12)
        assert row.energy_rx_j == pytest.approx(0.2 * (4 * 8e-6 if row.report_lost else listening_s), rel=1e-12)
        assert row.transmitted != row.report_lost
        assert row.energy_tx_j > 0 or row.report_lost
    parts = ["energy_tx_j", "energy_pilot_j", "energy_rx_j", "energy_control_j", "energy_compute_j"]
    np.testing.assert_allclose(run.nodes[parts].sum(axis=1), run.nodes["energy_j"], rtol=1e-12)


def test_what_nodes_send_and_are_answered_fills_the_frame():
    world = build(tiny(network={"nodes": 6, "topology": {"kind": "ring"}}, power={"schedule": "adaptive"}))
    times = world.simulation.energy.control
    assert (times.report_s.sum() + times.answer_s.sum()) * 1e9 == pytest.approx(world.frame.feedback_ns)
    assert not times.z_send_s.any()
    world = build(tiny(power={"balance": False, "alpha_min": 1e-6}))
    times = world.simulation.energy.control
    assert times.z_send_s.sum() * 1e9 == pytest.approx(world.frame.exchange_ns)
    assert not times.report_s.any()


@pytest.mark.parametrize("power", [{}, {"balance": False, "multiplier": "none", "alpha_min": 1e-6}])
def test_a_run_that_needs_no_control_channel_pays_nothing_for_it(power):
    world = build(tiny(power=power, radio={"control_failure": 0.1}))
    times = world.simulation.energy.control
    assert not np.concatenate([times.report_s, times.answer_s, times.z_send_s, times.z_listen_s]).any()
    assert (world.frame.feedback_ns, world.frame.exchange_ns) == (0, 0)
    assert world.always_complete


def test_batteries_pay_for_the_control_channel():
    slots = Watched(tiny_table(**{**LOSSY, "energy": {"battery_j": 1.0}})).run().decisions
    first, second = slots[0].participation, slots[1].participation
    frame_j = (slots[0].frame.payload_ns + slots[0].frame.own_pilot_ns) / 1e9
    expected = np.where(first.missed, 1e-6, frame_j) + 3 * NUMBER_S  # 1 W; a lost report still sent one pilot symbol
    np.testing.assert_allclose(first.battery_j - second.battery_j, expected, rtol=1e-9)


# --- losses


def test_messages_are_lost_as_often_as_asked_and_apart_from_each_other():
    losses = ControlLosses(50, 0.2, Streams(3))
    report, z = (np.stack([draw(t) for t in range(1, 401)]) for draw in (losses.report, losses.z))
    error = np.sqrt(0.2 * 0.8 / report.size)
    for drawn in (report, z):
        assert abs(drawn.mean() - 0.2) < 3 * error
        assert np.abs(drawn.mean(axis=0) - 0.2).max() < 4 * error * np.sqrt(50)  # no node is luckier; 50 of them
    assert abs((report & z).mean() - 0.04) < 3 * np.sqrt(0.04 * 0.96 / report.size)
    again = (report[1:] & report[:-1]).mean()
    assert abs(again - 0.04) < 4 * np.sqrt(0.04 * 0.96 / report.size)  # overlapping pairs: a little more than 3
    np.testing.assert_array_equal(ControlLosses(20, 0.2, Streams(3)).report(7), report[6, :20])
    assert (ControlLosses(50, 0.2, Streams(3, run=2)).report(7) != report[6]).any()


def test_a_run_that_may_lose_reports_counts_on_nobody(lossy):
    assert not lossy.world.always_complete  # so that checkpoints keep what absent nodes hold
    assert build(tiny(**ADAPTIVE)).always_complete


def test_a_node_without_a_plan_neither_sends_nor_hears_and_keeps_what_it_has(lossy):
    for before, slot, models in zip([None, *lossy.after_round], lossy.decisions, lossy.after_round):
        missed = slot.participation.missed
        assert not (slot.on_air & missed).any()
        assert not missed[slot.channel.heard.tx].any()
        assert not missed[slot.channel.heard.rx].any()
        if before is not None:
            np.testing.assert_array_equal(models[missed], before[missed])


def test_the_plan_of_the_others_holds_without_those_that_are_missing(lossy):
    assert lossy.engine.violations == 0
    # the plan is made among those that are there: the worst link is at its target, not below by the missing maskers
    worst = [slot.charged.link.max(initial=0.0) for slot in lossy.decisions[1:] if len(slot.charged.link)]
    assert max(worst) <= 1.0 + 1e-6
    assert np.median(worst) > 0.5


def test_the_ledger_charges_only_what_was_sent(lossy):
    released = lossy.events["privacy.release"]
    carried = np.zeros(4)  # learning rate of the gradient that each node holds unsent
    charges = np.zeros(4, dtype=int)
    for slot, release in zip(lossy.decisions, released):
        missed = slot.participation.missed
        assert (release.own_mu[missed] == 0).all()
        np.testing.assert_array_equal(slot.release.gamma, carried)
        if (old := slot.on_air & (carried > 0)).any():  # noise is that of the gradient, however old
            np.testing.assert_allclose(slot.sigma[old], 10.0 * carried[old])
        charges += slot.on_air & (carried > 0)
        carried = np.where(slot.on_air, slot.learning_rate, carried)
    np.testing.assert_array_equal(lossy.engine.stages.ledger.own.rounds, charges)
    assert (charges < 39).all()


def test_the_mean_leaves_out_rows_that_were_lost():
    rng = np.random.default_rng(1)
    links = Links.from_gain(1.0 - np.eye(4))
    everyone, frames = np.ones(4, dtype=bool), []
    lossy, losses = make_multiplier("mean", 4, lossy=True), rng.random((30, 4)) < 0.4
    losses[0] = [True, False, False, False]  # nobody knows node 0's row yet
    for n, lost in enumerate(losses):
        frames.append(mix(links, rng.rayleigh(size=len(links)), np.ones(4), air=uniform_air(links)))
        value = lossy.advance(frames[-1], everyone, lost)
        if n == 0:
            assert np.isfinite(value).all()
    mean = np.stack([np.mean([f.dense[j] for f, lost in zip(frames, losses) if not lost[j]], axis=0) for j in range(4)])
    values, vectors = np.linalg.eig(mean.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(value, pi.sum() / pi, rtol=1e-9)


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        (rule, lambda rule=rule: make_multiplier(rule, 4, lossy=True))
        for rule in ("product", "mean", "tracked", "windowed")
    ]
    + [("sparse mean", lambda: SparseMean(4))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_restored_exchange_goes_on_whatever_is_lost_next(rule, make):
    """From every round, in the first of which most broadcasts are lost: what was heard last counts at once."""
    rng = np.random.default_rng(3)
    links = Links.from_gain(1.0 - np.eye(4))
    everyone, first = np.ones(4, dtype=bool), make()
    for round in range(70):  # two windows and more
        again = make()
        again.restore({name: values.copy() for name, values in first.state().items()})
        mixing = mix(links, rng.rayleigh(size=len(links)), np.ones(4), air=uniform_air(links))
        lost = rng.random(4) < (0.0 if round == 0 else 0.7)
        np.testing.assert_array_equal(first.advance(mixing, everyone, lost), again.advance(mixing, everyone, lost))
        for name, values in first.state().items():
            np.testing.assert_array_equal(again.state()[name], values, err_msg=f"{rule}: {name}")


# --- whole runs

EXCHANGING = {"balance": False, "schedule": "adaptive", "alpha_min": 1e-9}


@pytest.mark.parametrize("power", [{"multiplier": rule, **EXCHANGING} for rule in ("product", "mean", "windowed")])
def test_a_failure_that_never_happens_changes_no_bit(power, tmp_path):
    def run(failure):
        radio = {"thermal_noise": True, "control_failure": failure}
        sections = {**ADAPTIVE, "scenario": {"rounds": 8}, "power": power, "radio": radio}
        return wirelessdl.simulate(tiny(**sections), out=tmp_path).path

    assert_same_tables(run(0.0), run(1e-15), but=("multiplier_heard",))  # what others last heard of z


@pytest.mark.parametrize("multiplier", ["product", "mean", "windowed"])
def test_a_run_with_losses_goes_on_bit_for_bit(multiplier, tmp_path):
    power = {"multiplier": multiplier, **EXCHANGING}
    sections = {**LOSSY, "power": power, "trace": {"checkpoint_every": 20}, "scenario": {"rounds": 50}}
    sections["faults"] = {"crashes": {"kind": "exponential", "up_s": 0.2, "down_s": 0.02}, "rejoin": "listen"}
    sections["energy"] = {"receive_w": 0.1, "battery_j": [2e-4, 1.0, 1.0, 1.0]}
    whole = assert_resumes(tiny(**sections), tmp_path, 33)
    assert whole.nodes["report_lost"].any()
    assert whole.nodes["z_lost"].any()
    assert {"control", "crash", "battery"} <= set(whole.events["kind"])
    # who came back from a crash listens for a frame: it reports its gains and hears z, but has none to send
    assert not (whole.nodes["z_lost"] & ~whole.nodes["transmitted"]).any()
    listened = whole.nodes.query("present and not transmitted")
    assert len(listened)
    np.testing.assert_allclose(listened["energy_control_j"], NUMBER_S * (3 * 1.0 + (2 + 3 * 4) * 0.1), rtol=1e-12)


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_a_failure_is_a_probability_below_one(value):
    with pytest.raises(ScenarioError, match=r"radio\.control_failure is .*; must be >= 0 and < 1"):
        tiny(radio={"control_failure": value})


def test_senders_that_back_off_for_each_other_need_every_report():
    scenario = tiny(radio={"control_failure": 0.1}, power={"schedule": "adaptive", "balance": "power"})
    with pytest.raises(ScenarioError, match=r"while radio\.control_failure takes links away"):
        build(scenario)
