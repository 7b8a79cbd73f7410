"""Digital access against hand computation: rates, attempts, outage, airtime, energy; and what it must not change."""

import json
import math

import numpy as np
import pytest
from conftest import tiny, tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.access import AirSettings
from wirelessdl.access.digital import Keys, Messages
from wirelessdl.access.tdma import coloring
from wirelessdl.audit import AuditOptions, audit_scenario
from wirelessdl.cli.plan import facts
from wirelessdl.errors import ScenarioError
from wirelessdl.links import Geometry, Links
from wirelessdl.mixing import metropolis, metropolis_delivered
from wirelessdl.preview import cancelling
from wirelessdl.preview.plan import preview_plan
from wirelessdl.radio.frame import Frame, Turns
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.run.build import build
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.trace.files import plain

M = 7850
US = 1_000
OWN = {"objective": "own-noise"}
# |h| of the links 1 -> 0, 2 -> 0, 0 -> 1, 2 -> 1, 0 -> 2, 1 -> 2, attempt by attempt
SCRIPT = """
import numpy as np

class Script:
    small_scale = True
    def __init__(self, rows):
        self.rows, self.calls = rows, 0
    def gain(self, links, time_s, rng):
        row = self.rows[self.calls % len(self.rows)]
        self.calls += 1
        return np.array(row, dtype=float)
"""


def coding(**changes):
    given = {
        "quantizer_bits": 8,
        "quantizer_block": 100,
        "rate_bps_hz": "auto",
        "rate_min_bps_hz": 0.15,
        "rate_max_bps_hz": 7.4,
        "gap_db": 3.0,
        "fade_margin_db": 6.0,
        "attempts": 3,
        "combining": False,
    }
    return Keys(**{**given, **changes})


def full(nodes):
    return Links.from_mask(np.ones((nodes, nodes), bool), Geometry.at_rest(np.random.default_rng(1).random((nodes, 3))))


def delivered(gain, later=(), mean=None, turn=None, nodes=3, thermal_w=1e-3, slots=1, **changes):
    """Messages of 1,000 coordinates at 1 MHz, W, on a full graph. gain: of the first attempt, [links] each slot."""
    links = full(nodes)
    gain = np.atleast_2d(gain)
    frame = Frame(5_000, 5_000, 0, 10_000, slots, turns=nodes)
    channel = FrameChannel(
        links, links, None, gain[0] if mean is None else mean, tuple(SlotChannel(row, row) for row in gain)
    )
    messages = Messages(
        coding(**changes), AirSettings(frame, 1000, 1e6, np.ones(nodes), thermal_w, "block", "plain", None)
    )
    rows, asked = iter(later), []

    def again(times_ns):
        asked.append(list(times_ns))
        return [next(rows) for _ in times_ns]

    turns = Turns(np.arange(nodes) if turn is None else np.array(turn), nodes)
    return messages.deliver(channel, np.ones(nodes, bool), turns, again), asked


def test_a_rate_is_that_of_the_weakest_neighbour_and_a_message_fills_its_symbols():
    # receiver-major: 1 -> 0, 2 -> 0, 0 -> 1, 2 -> 1, 0 -> 2, 1 -> 2; SNR = |h|^2 / 1e-3
    found, asked = delivered(np.array([0.5, 0.2, 0.5, 1.0, 0.2, 1.0]))
    bits = 8 * 1000 + 32 * 10
    room = 10**-0.9  # gap and margin
    wanted = [math.log2(1 + snr * room) for snr in (0.04 / 1e-3, 0.25 / 1e-3, 0.04 / 1e-3)]
    symbols = [math.ceil(bits / rate) for rate in wanted]
    assert found.part_ns.tolist() == [count * US for count in symbols]
    np.testing.assert_allclose(found.rate_bps_hz, [bits / count for count in symbols])
    assert found.attempts.tolist() == [1, 1, 1]
    assert (found.decoded_in == 1).all()
    assert asked == []
    assert found.payloads_ns == tuple(count * US for count in symbols)
    # who does not send listens to pilots and payloads of the two others
    assert found.airtime.listening_ns[0] == (symbols[1] + symbols[2]) * US + 2 * 5_000
    assert found.airtime.payload_ns.tolist() == [count * US for count in symbols]
    assert found.airtime.pilot_ns.tolist() == [5_000] * 3


def test_rates_stay_within_their_limits_and_hopeless_neighbours_are_left_out():
    found, _ = delivered(np.array([100.0, 1e-4, 100.0, 100.0, 1e-4, 100.0]))
    # 0 -> 2 would need 1e-8 / 1e-3 of SNR: 0 plans for 1 alone and does not repeat for 2
    assert found.rate_bps_hz == pytest.approx([7.4] * 3, rel=1e-3)
    assert found.attempts.tolist() == [1, 1, 1]
    assert found.decoded_in.tolist() == [1, 0, 1, 1, 0, 1]
    alone, _ = delivered(
        np.full(6, 1e-4), [np.full(6, 1e-4)] * 2
    )  # nobody is heard well: all are planned for, as slowly as may be
    assert alone.rate_bps_hz == pytest.approx([0.15] * 3, rel=1e-3)
    assert alone.attempts.tolist() == [3, 3, 3]


def test_repetitions_are_sent_by_those_whose_neighbours_lack_the_message_and_end_at_the_limit():
    mean, lost = np.full(6, 0.5), 1e-3
    first = np.array([lost, 0.5, 0.5, 0.5, 0.5, 0.5])  # 1 -> 0 fades
    second = np.array([lost, 0.5, 0.5, 0.5, 0.5, 0.5])
    third = np.full(6, 0.5)
    found, asked = delivered(first, [second, third], mean=mean)
    assert found.attempts.tolist() == [1, 3, 1]
    assert found.decoded_in.tolist() == [3, 1, 1, 1, 1, 1]
    turn_ns = int(found.part_ns[0]) + 5_000 + 20_000
    assert asked == [[3 * turn_ns], [4 * turn_ns]]  # turns of the others are skipped
    assert len(found.payloads_ns) == 5
    assert found.airtime.payload_ns.tolist() == [int(found.part_ns[0]) * n for n in (1, 3, 1)]
    given_up, _ = delivered(first, [second, second], mean=mean)
    assert given_up.decoded_in.tolist() == [0, 1, 1, 1, 1, 1]
    assert given_up.attempts.tolist() == [1, 3, 1]


def test_combined_attempts_add_up_and_slots_are_averaged():
    mean = np.full(6, 0.5)
    half = math.sqrt((2 ** (0.55 * math.log2(1 + 250 * 10**-0.9)) - 1) * 10**0.3 * 1e-3)  # 0.55 of the rate
    weak = np.array([half, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert delivered(weak, [weak, weak], mean=mean)[0].decoded_in[0] == 0
    assert delivered(weak, [weak], mean=mean, combining=True)[0].decoded_in[0] == 2
    # two slots, one of them lost: a mean of half the information of the other, which has 6 dB of margin
    slots = np.array([[1e-6, *[0.5] * 5], [0.5] * 6])
    one = math.log2(1 + 250 * 10**-0.3) / 2
    found, asked = delivered(slots, [np.full(6, 0.5)] * 2, mean=mean, slots=2)
    assert one < found.rate_bps_hz[1]
    assert found.decoded_in.tolist() == [2, 1, 1, 1, 1, 1]
    slot_ns = int(found.part_ns[0]) + 5_000 + 20_000
    assert asked == [[6 * slot_ns, 7 * slot_ns]]


def test_outage_under_rayleigh_fading_is_that_of_the_closed_form():
    """P(|h|^2 g^2 / N < gap (2^R - 1)) of one attempt; of three, its third power; gains are fresh in each."""
    rng, rate, mean_snr, frames = np.random.default_rng(11), 4.0, 200.0, 1000
    fading = np.sqrt(rng.exponential(size=(frames, 3, 6)) * mean_snr * 1e-3)
    bits = 8 * 1000 + 32 * 10
    sent = bits / math.ceil(bits / rate)
    single = 1 - math.exp(-(10**0.3) * (2**sent - 1) / mean_snr)
    found = [delivered(one[0], one[1:], rate_bps_hz=rate)[0] for one in fading]
    decoded = np.stack([one.decoded_in for one in found])
    for lost, expected in ((decoded != 1, single), (decoded == 0, single**3)):
        share = lost.mean(axis=0)  # of each link: one value per frame, independent
        assert abs(share.mean() - expected) < 3 * math.sqrt(expected * (1 - expected) / decoded.size)
    attempts = 1 + single_or_more(single) + single_or_more(single**2)
    counted = np.stack([one.attempts for one in found])
    assert counted.mean() == pytest.approx(attempts, abs=3 * counted.std() / math.sqrt(counted.size))


def single_or_more(lost):
    """That any of two neighbours lacks the message."""
    return 1 - (1 - lost) ** 2


def test_a_jammer_and_strangers_in_the_same_turn_cost_links_but_only_strangers_are_planned_for():
    links = full(4)
    heard, neighbour = links, (links.rx // 2 == links.tx // 2)  # 0 <-> 1 and 2 <-> 3 are neighbours
    gain = np.where(neighbour, 1.0, 0.1)
    frame = Frame(0, 0, 0, 0, turns=2)
    turns = Turns(np.array([0, 1, 0, 1]), 2)
    channel = FrameChannel(heard.where(neighbour), heard, neighbour, gain, (SlotChannel(gain, gain),))
    given = AirSettings(frame, 100, 1e6, np.ones(4), 1e-3, "block", "plain", None)
    messages = Messages(coding(fade_margin_db=0.0, attempts=1), given)
    everyone = np.ones(4, bool)
    found = messages.deliver(channel, everyone, turns, lambda _: [])
    # of the two that send in a turn, one is a stranger to each receiver
    assert found.rate_bps_hz == pytest.approx([math.log2(1 + 1 / (0.011 * 10**0.3))] * 4, rel=1e-2)
    assert (found.decoded_in == 1).all()
    jammed = FrameChannel(heard.where(neighbour), heard, neighbour, gain, channel.slots, np.array([0.0, 0.0, 0.5, 0.0]))
    assert messages.deliver(jammed, everyone, turns, lambda _: []).decoded_in.tolist() == [1, 1, 0, 1]


def test_weights_stay_doubly_stochastic_whatever_is_lost():
    rng = np.random.default_rng(2)
    links = Links.from_mask(np.array([[abs(i - j) in (1, 2) for j in range(7)] for i in range(7)]), full(7).geometry)
    nobody = np.zeros(7, bool)
    for _ in range(20):
        arrived = rng.random(len(links)) < 0.7
        dense = metropolis_delivered(links, arrived, nobody).dense
        np.testing.assert_allclose(dense.sum(axis=0), 1.0)
        np.testing.assert_allclose(dense.sum(axis=1), 1.0)
        assert (dense >= 0).all()
        assert (np.diag(dense) > 0).all()
        assert not dense[links.rx[~arrived], links.tx[~arrived]].any()
    whole = metropolis_delivered(links, np.ones(len(links), bool), nobody)
    tdma = metropolis(links, np.ones(len(links)), np.ones(7), nobody)
    assert np.array_equal(whole.link, tdma.link)
    assert np.array_equal(whole.own, tdma.own)
    listening = nobody.copy()
    listening[3] = True
    only = (links.rx == 3) & (links.tx < 3)
    row = metropolis_delivered(links, only, listening).dense[3]
    assert row.tolist() == [0, 0.5, 0.5, 0, 0, 0, 0]


SECTIONS = {
    "scenario": {"rounds": 6},
    "network": {"nodes": 5, "topology": {"kind": "ring"}},
    "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
    "power": OWN,
    "energy": {"receive_w": 0.1, "efficiency": 0.5, "compute_w": 0.2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    radio = {"access": "digital", "power_dbm": -5, "thermal_noise": True, "fade_margin_db": 3.0, "attempts": 3}
    return wirelessdl.simulate(tiny(**SECTIONS, radio=radio), out=tmp_path_factory.mktemp("digital"))


def test_airtime_and_energy_follow_from_the_tables(run):
    """Time and joules of every round, worked out again from rates, attempts and turns."""
    nodes, rounds = run.nodes, run.rounds
    assert nodes["attempts"].max() > 1
    assert run.links["outage"].any()
    bits = 8 * M + 32 * math.ceil(M / 256)
    for row in rounds.itertuples():
        here = nodes[nodes["round"] == row.round]
        symbols = np.ceil(here["node_payload_s"].to_numpy() * 1e6 - 1e-6)
        np.testing.assert_allclose(here["rate_bps_hz"], bits / symbols, rtol=1e-12)
        total_s = used = 0.0
        for attempt in range(1, int(here["attempts"].max()) + 1):
            active = here[here["attempts"] >= attempt]
            longest = active.groupby("turn")["node_payload_s"].max()
            total_s += longest.sum()
            used += len(longest)
        assert row.slots == used
        assert row.airtime_s == pytest.approx(total_s + used * (row.pilot_s + 2 * row.guard_s), abs=1e-12)
        sent_s = here["attempts"] * here["node_payload_s"]
        power_w = 10 ** (-3.5)
        np.testing.assert_allclose(here["power_w"], power_w)
        np.testing.assert_allclose(here["energy_tx_j"], power_w * sent_s / 0.5, rtol=1e-9)
        np.testing.assert_allclose(here["energy_pilot_j"], power_w * here["attempts"] * row.node_pilot_s / 0.5)
        listened_s = total_s + used * row.pilot_s - sent_s - here["attempts"] * row.pilot_s
        np.testing.assert_allclose(here["energy_rx_j"], 0.1 * listened_s, rtol=1e-9)
    summary = run.summary
    assert summary["airtime_s"] == pytest.approx(rounds["airtime_s"].sum())
    assert summary["energy_j"] == pytest.approx(nodes["energy_j"].sum())
    assert summary["outage_rate"] == pytest.approx(run.links["outage"].mean())
    assert summary["attempts_mean"] == pytest.approx(nodes["attempts"].mean())


def test_links_in_outage_carry_nothing_and_rows_sum_to_one(run):
    links = run.links
    assert (links.loc[links["outage"], "weight"] == 0).all()
    assert links.loc[links["outage"], "decoded_in"].isna().all()
    assert (links["outage"] == links["decoded_in"].isna()).all()
    np.testing.assert_allclose(run.nodes["row_sum"], 1.0)


def test_a_run_verifies_and_its_timeline_ends_with_each_frame(run):
    from wirelessdl.analysis.timeline import KINDS, timeline_of
    from wirelessdl.analysis.verify import verify

    assert verify(run.path).problems == ()
    found = timeline_of(run)
    payload = found.bars[found.bars.kind == KINDS.index("payload")]
    attempts = run.nodes.groupby("round")["attempts"].sum()
    for row, round in enumerate(found.round):
        here = payload.in_rows(row)
        assert len(here.row) == attempts[round]
        assert (here.start_s + here.length_s).max() == pytest.approx(found.closed_s[row], abs=1e-9)


def test_a_scripted_channel_takes_the_attempts_it_was_written_for(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    good, bad = [1.0] * 6, [1e-6, *[1.0] * 5]
    table = tiny_table(
        scenario={"rounds": 2},
        network={"nodes": 3},
        channel={"models": [{"model": "script.py:Script", "rows": [bad, bad, good, good]}]},
        radio={"access": "digital", "power_dbm": 0, "thermal_noise": True, "fade_margin_db": 0.0, "rate_bps_hz": 5.0},
        power=OWN,
    )
    watched = Watched(table, folder=str(tmp_path)).run()
    first, second = watched.decisions
    assert first.carried.nodes["attempts"].tolist() == [1, 3, 1]
    assert second.carried.nodes["attempts"].tolist() == [1, 1, 1]
    symbols = math.ceil((8 * M + 32 * 31) / 5)
    assert first.frame.airtime_ns == 5 * (symbols * US + 1_000 + 20_000)  # five turns: pilot, guard, payload, guard
    assert second.frame.airtime_ns == 3 * (symbols * US + 1_000 + 20_000)
    assert second.opened_ns == first.frame.airtime_ns + watched.world.simulation.duration_ns(0, 1)


IDEAL = {"thermal_noise": False, "power_dbm": 23}


def twins(**sections):
    table = {**SECTIONS, **sections}
    radio = {**IDEAL, "quantizer_bits": 32}
    digital = Watched(tiny_table(**table, radio={**radio, "access": "digital"})).run()
    tdma = Watched(tiny_table(**table, radio={**IDEAL, "access": "tdma"})).run()
    return digital, tdma


@pytest.mark.parametrize("epsilon_max", [1.0, float("inf")])
def test_without_receiver_noise_32_bits_are_tdma(epsilon_max):
    digital, tdma = twins(privacy={"epsilon_max": epsilon_max})
    for one, other in zip(digital.after_round, tdma.after_round):
        assert np.abs(one - other).max() < 1e-6
    assert np.abs(one).max() > 1e-2
    assert all(
        np.array_equal(one.plan.alpha, other.plan.alpha) for one, other in zip(digital.decisions, tdma.decisions)
    )


def test_proven_totals_are_those_of_the_same_noise_over_tdma():
    """Rounding, outage and repetitions of one message are post-processing of one release."""
    radio = {"power_dbm": -5, "thermal_noise": True, "fade_margin_db": 3.0, "quantizer_bits": 3}
    digital = Watched(tiny_table(**SECTIONS, radio={**radio, "access": "digital"})).run()
    tdma = Watched(tiny_table(**SECTIONS, radio={"power_dbm": -5, "thermal_noise": True, "access": "tdma"})).run()
    assert any((one.carried.nodes["attempts"] > 1).any() for one in digital.decisions)
    assert any(one.carried.links["outage"].any() for one in digital.decisions)
    for one, other in zip(digital.decisions, tdma.decisions):
        assert np.array_equal(one.release.own_mu, other.release.own_mu)
    ours, theirs = (watched.engine.stages.ledger.own.total() for watched in (digital, tdma))
    assert np.array_equal(ours, theirs)
    assert ours.max() > 0


def test_scales_are_those_of_the_noisy_model():
    """What is put on air is the rounding of x + noise, so a function of the release and of the dither alone."""
    import torch

    from wirelessdl.audit.wiretap import Wiretap
    from wirelessdl.learning.superposition import Quantizer

    watched = Watched(tiny_table(scenario={"rounds": 3}, power=OWN, radio={"access": "digital", "quantizer_bits": 4}))
    engine = watched.world.learning
    tap = Wiretap(engine)
    before = engine.x.clone()
    seen = []

    def check(event):
        noise, dither = torch.empty(4, M), torch.empty(4, M, dtype=torch.float64)
        engine.draws.fill_normal(noise, event.round, "noise")
        engine.draws.fill_dither(dither, event.round, range(4))
        plan, sigma = event.decision.plan, event.decision.sigma
        scale = torch.tensor(np.sqrt((1 - plan.alpha) / plan.alpha) * sigma)[:, None]
        noisy = torch.addcmul(before, noise.double(), scale).float()
        Quantizer(4, 256).apply_(noisy, dither)
        assert torch.equal(noisy, tap.sent)
        before.copy_(engine.x)
        seen.append(event.round)

    watched.engine.trace.connect("learning.update", check)
    watched.run()
    assert seen == [1, 2, 3]


def test_who_is_silent_keeps_its_model_unrounded():
    table = tiny_table(
        scenario={"rounds": 8},
        power=OWN,
        privacy={"epsilon_max": 1.0, "budget_total": 0.002},
        radio={"access": "digital", "quantizer_bits": 1},
    )
    watched = Watched(table).run()
    silent = [not decision.on_air.any() for decision in watched.decisions]
    assert any(silent)
    first = silent.index(True)
    for before, after in zip(watched.after_round[first:-1], watched.after_round[first + 1 :]):
        assert np.array_equal(before, after)


def test_turns_are_those_of_tdma():
    digital, tdma = twins()
    assert np.array_equal(digital.decisions[0].turn, tdma.decisions[0].turn)
    assert digital.decisions[0].frame.turns == int(coloring(digital.world.links).max()) + 1


REFUSED = [
    ({"radio": {"mixing_passes": 2}}, "radio.mixing_passes is 2 under radio.access"),
    ({"learning": {"closing_passes": 1}}, "learning.closing_passes is 1 under radio.access"),
    ({"privacy": {"epsilon_max": 1.0, "credit_thermal": True}}, "privacy.credit_thermal is true under radio.access"),
    ({"radio": {"z_exchange": "air"}}, 'radio.z_exchange is "air" under radio.access'),
    ({"radio": {"duplex": "half"}}, 'radio.duplex is "half" under radio.access "digital"'),
    ({"radio": {"rate_min_bps_hz": 9.0}}, "radio.rate_min_bps_hz is 9; must be at most radio.rate_max_bps_hz, 7.4"),
    ({"radio": {"rate_bps_hz": "fast"}}, 'radio.rate_bps_hz is "fast"; must be "auto", or a number from 0.01 to 32'),
    ({"radio": {"quantizer_bits": 33}}, "radio.quantizer_bits is 33; must be <= 32"),
    ({"radio": {"attempts": 0}}, "radio.attempts is 0; must be >= 1"),
    ({"energy": {"battery_j": [1.0, 2.0, 3.0, 4.0]}}, "energy.battery_j is finite under radio.access"),
    ({"power": {"objective": "sum"}}, 'power.objective is "sum" under radio.access "digital"'),
]


@pytest.mark.parametrize(("sections", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_messages_cannot_do_is_refused_in_one_line(sections, words):
    whole = {"power": OWN, **{key: value for key, value in sections.items() if key != "radio"}}
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(tiny_table(**whole, radio={"access": "digital", **sections.get("radio", {})}))
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_plan_says_what_messages_will_do():
    radio = {"access": "digital", "power_dbm": -5, "thermal_noise": True, "fade_margin_db": 3.0}
    found = preview_plan(build(parse_scenario(tiny_table(**SECTIONS, radio=radio)), device="cpu"))
    messages = found.carry.facts
    assert messages["bits"] == 8 * M + 32 * 31
    assert 1 < messages["attempts_mean"] < 4
    assert 0 <= messages["outage_rate"] < messages["first_outage"] < 1
    assert f"{messages['bits']:,} bits at" in cancelling(found, parse_scenario(tiny_table()).power)["messages"]
    assert found.thermal_std == 0
    assert json.loads(json.dumps(plain(facts(found))))["messages"]["bits"] == messages["bits"]


@pytest.mark.slow
def test_an_audit_hears_messages():
    """The attack sees what is put on air, and stays below what is proven."""
    scenario = tiny(scenario={"rounds": 3}, power=OWN, radio={"access": "digital", "quantizer_bits": 8})
    report = audit_scenario(scenario, AuditOptions(trials=60, rounds=2))
    assert report.sound
