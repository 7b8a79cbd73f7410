"""Hubs on a made air: whom the greedy choice takes, what a turn makes of holdings, receiver noise by its formula."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components

from wirelessdl.access import AirSettings, Sending
from wirelessdl.access.hubs import HubCarrier, Walk, joined, reached
from wirelessdl.learning.announced import announced_rms, send_announced
from wirelessdl.links import Geometry, Links
from wirelessdl.mechanism.pairwise import PairSettings, roster_of
from wirelessdl.radio.frame import Frame, Turns
from wirelessdl.radio.frame_channel import FrameChannel, SlotChannel
from wirelessdl.radio.offsets import Offsets
from wirelessdl.streams import Streams

NEAR = 10.0
SIZE = 26


def snr_of(nodes, *links, level=100.0):
    """SNR of these links, both ways, `[K, K]`; nothing else is heard."""
    snr = np.zeros((nodes, nodes))
    for one, other in links:
        snr[one, other] = snr[other, one] = level
    return snr


def walked(snr, senders=None, served=None):
    """Hubs and members, turn by turn, while nothing changes."""
    walk = Walk(NEAR, np.ones(len(snr), dtype=bool) if senders is None else senders, served)
    found = []
    while (turn := walk.next(snr)) is not None:
        found.append((turn[0], np.flatnonzero(turn[1]).tolist()))
    return found, walk


class Made:
    """A network with these complex h[rx, tx], still or turning; hubs carry one frame of it."""

    def __init__(
        self,
        h,
        *,
        thermal_w=0.0,
        power_w=None,
        subslots=3,
        pilots=None,
        moving=None,
        near_snr=NEAR,
        cfo_hz=None,
        **keys,
    ):
        self.nodes, self.h, self.thermal_w = len(h), h, thermal_w
        self.power_w = np.full(self.nodes, 0.2) if power_w is None else np.asarray(power_w)
        frame = Frame.from_settings(parameters=SIZE, nodes=self.nodes, pilots=4, bandwidth_hz=1e6, guard_s=1e-6)
        self.moving = moving or (lambda _: 1.0)
        self.asked_ns = []
        self.links = Links.from_mask(np.abs(h) > 0, Geometry.at_rest(np.zeros((self.nodes, 3))))
        gain = self.links.vector(np.abs(h))
        self.channel = FrameChannel(self.links, self.links, None, gain, (SlotChannel(gain, gain),))
        self.given = AirSettings(
            frame=frame,
            coordinates=SIZE,
            bandwidth_hz=1e6,
            power_w=self.power_w,
            thermal_w=thermal_w,
            balance_from="block",
            mixing="plain",
            offsets=cfo_hz and Offsets.from_nodes(np.array(cfo_hz), np.zeros(self.nodes), 1e6, frame),
            pilots=pilots,
            h_at=self.h_at,
            **{
                name: keys.pop(name)
                for name in ("rounds", "passes", "closing", "phase_error_rad", "number_s")
                if name in keys
            },
        )
        wanted = {"subslots": subslots, "hub_order": "there", "hub_rotation": False, "hub_failure": 0.0, **keys}
        self.carrier = HubCarrier(SimpleNamespace(**wanted), self.given, near_snr, Streams(3))

    def h_at(self, links, times_ns):
        self.asked_ns.extend(times_ns)
        return np.stack([self.h[None, links.rx, links.tx] * self.moving(when) for when in times_ns])

    def carry(self, round=1, on_air=None, receivers=None):
        nobody = np.zeros(self.nodes, dtype=bool)
        on_air = ~nobody if on_air is None else on_air
        return self.carrier.carry(
            Sending(
                round=round,
                now_ns=0,
                channel=self.channel,
                plan=None,
                model_w=self.power_w,
                on_air=on_air,
                listening=nobody,
                receivers=nobody if receivers is None else receivers,
                turns=Turns(np.zeros(self.nodes, dtype=np.int64), 1),
                held_square=1.0,
                component=reached(self.channel, on_air, self.power_w, self.thermal_w, NEAR),
            )
        )


def sent(steps, held, seed=None):
    """What nodes hold after announced payloads; without receiver noise unless a seed is given. W of each payload."""
    held, powers = torch.as_tensor(held).clone(), []
    rng = None if seed is None else np.random.default_rng(seed)
    for step in steps:
        shape = (len(np.unique(step.rx)), held.shape[1])
        noise = np.zeros(shape) if rng is None else rng.normal(size=shape)
        powers.append(send_announced(step, held, torch.from_numpy(noise))[0].numpy())
    return held.numpy(), np.array(powers)


def symmetric(rng, nodes, low=0.5, high=2.0):
    """Reciprocal complex gains of random phase."""
    h = rng.uniform(low, high, (nodes, nodes)) * np.exp(2j * np.pi * rng.uniform(size=(nodes, nodes)))
    h = np.triu(h, 1)
    return h + h.T


# --- choice


def test_a_star_has_its_centre_for_a_hub():
    assert walked(snr_of(5, *((2, k) for k in (0, 1, 3, 4))))[0] == [(2, [0, 1, 3, 4])]


def test_a_path_is_walked_from_reached_node_to_reached_node():
    turns, walk = walked(snr_of(6, *((k, k + 1) for k in range(5))))
    assert turns[0] == (1, [0, 2])
    assert [hub for hub, _ in turns] == [1, 2, 3, 4]
    assert walk.reached.all()


def test_two_islands_are_both_served():
    turns, walk = walked(snr_of(6, (0, 1), (1, 2), (3, 4), (4, 5)))
    assert [hub for hub, _ in turns] == [1, 4]
    assert walk.reached.all()


def test_a_node_below_the_threshold_is_taken_over_its_best_link_unless_it_is_hopeless():
    snr = snr_of(4, (0, 1), (0, 2))
    snr[1, 3] = snr[3, 1] = 5.0
    snr[2, 3] = snr[3, 2] = 6.0
    assert walked(snr)[0] == [(0, [1, 2]), (2, [0, 3])]
    snr[snr < NEAR] *= 0.2
    turns, walk = walked(snr)
    assert turns == [(0, [1, 2])]
    assert walk.reached.tolist() == [True, True, True, False]


def test_hubs_of_every_small_graph_dominate_it_and_are_joined_within_its_parts():
    """All graphs of four nodes, and 300 random ones of seven; who does not send is never chosen."""
    rng = np.random.default_rng(1)
    pairs = list(combinations(range(4), 2))
    graphs = [(4, [pair for n, pair in enumerate(pairs) if number >> n & 1]) for number in range(2 ** len(pairs))]
    more = list(combinations(range(7), 2))
    graphs += [(7, [pair for pair in more if rng.uniform() < share]) for share in (0.2, 0.3, 0.6) for _ in range(100)]
    for nodes, links in graphs:
        snr, senders = snr_of(nodes, *links), rng.uniform(size=nodes) < 0.9
        near = (snr >= NEAR) & senders & senders[:, None]
        turns, walk = walked(snr, senders)
        component = joined(near)
        label = connected_components(near)[1]
        np.testing.assert_array_equal(component, np.where(near.any(axis=1), label, -1))
        np.testing.assert_array_equal(walk.reached, component >= 0)
        reached_by_now = np.zeros(nodes, dtype=bool)
        hubs = [hub for hub, _ in turns]
        for hub, members in turns:
            assert members == np.flatnonzero(near[hub]).tolist()
            # joined to what was reached, or the first of its part
            assert reached_by_now[hub] or not reached_by_now[component == component[hub]].any()
            reached_by_now[[hub, *members]] = True
        for part in set(component[component >= 0].tolist()):
            own = [hub for hub in hubs if component[hub] == part]
            assert (
                near[own][:, component == part]
                .any(axis=0)[np.isin(np.flatnonzero(component == part), own, invert=True)]
                .all()
            )
            assert (
                len(own) == 1
                or (
                    joined(near & np.isin(np.arange(nodes), own) & np.isin(np.arange(nodes), own)[:, None])[own] >= 0
                ).all()
            )


def test_rotation_spreads_turns_of_hubs():
    made = [Made(symmetric(np.random.default_rng(2), 6), hub_rotation=rotates) for rotates in (False, True)]
    fixed, rotated = (sum(one.carry(round).nodes["hub_turns"] for round in range(1, 31)) for one in made)
    assert fixed.max() == 30
    assert rotated.tolist() == [5] * 6


def test_there_and_back_visits_hubs_again_and_passes_are_further_walks():
    h = np.zeros((5, 5), complex)
    for k in range(4):
        h[k, k + 1] = h[k + 1, k] = 1.0
    turns = {}
    for order in ("there", "there-and-back"):
        made = Made(h, hub_order=order, passes=1, closing=2, rounds=2)
        turns[order] = [made.carry(round).nodes["hub_turns"].tolist() for round in (1, 2)]
    assert turns["there"] == [[0, 2, 2, 2, 0], [0, 4, 4, 4, 0]]
    assert turns["there-and-back"] == [[0, 4, 4, 2, 0], [0, 8, 8, 4, 0]]


# --- what a turn makes of holdings


@pytest.mark.parametrize("subslots", [1, 3, 8])
def test_without_receiver_noise_a_turn_gives_everyone_the_mean_of_the_star(subslots):
    rng = np.random.default_rng(subslots)
    made = Made(symmetric(rng, 6), subslots=subslots, power_w=rng.uniform(0.01, 1.0, 6))
    held = rng.normal(size=(6, SIZE)) * 10.0 ** rng.uniform(-1, 1, (6, 1))
    after, _ = sent(made.carry().announced, held)
    np.testing.assert_allclose(after, np.broadcast_to(held.mean(axis=0), held.shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["there", "there-and-back"])
@pytest.mark.parametrize("failure", [0.0, 0.5])
def test_turns_keep_the_mean_of_the_network_and_are_the_weights_that_tables_show(order, failure):
    """A path of islands and bridges: no hub reaches all; hubs that fail leave everything as it was."""
    rng = np.random.default_rng(4)
    h = symmetric(rng, 8)
    h[np.abs(np.subtract.outer(np.arange(8), np.arange(8))) > 2] = 0.0
    made = Made(h, hub_order=order, hub_failure=failure, passes=2)
    carried = made.carry()
    held = rng.normal(size=(8, SIZE))
    after, _ = sent(carried.announced, held)
    np.testing.assert_allclose(after.mean(axis=0), held.mean(axis=0), rtol=0, atol=1e-12)
    columns = np.stack([sent(carried.announced, np.eye(8)[:, [k] * SIZE])[0][:, 0] for k in range(8)], axis=1)
    np.testing.assert_allclose(columns.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(columns.sum(axis=1), 1.0, atol=1e-12)
    known = carried.weights.known
    np.testing.assert_allclose(made.links.vector(columns), known.link, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(columns), known.own, atol=1e-12)
    apart = np.linalg.norm(columns - 1.0 / 8, 2)
    assert carried.rounds["disagreement"] == pytest.approx(apart, abs=1e-12)
    if failure == 0:
        assert carried.rounds["disagreement"] < 0.5
        assert carried.rounds["uncollected"] == 0


@pytest.mark.parametrize(("order", "power"), [("there", 0.5), ("there-and-back", 1.0)])
def test_two_stars_leave_of_disagreement_what_they_do_not_share(order, power):
    """Hubs 4 and 3 of 7 and 5 nodes that share two, themselves."""
    h = np.zeros((10, 10), complex)
    for hub, members in ((3, [0, 1, 2, 4]), (4, [3, 5, 6, 7, 8, 9])):
        h[hub, members] = h[members, hub] = 1.0
    carried = Made(h, hub_order=order).carry()
    assert carried.rounds["disagreement"] == pytest.approx(((1 - 2 / 7) * (1 - 2 / 5)) ** power)


def test_a_hub_that_fails_leaves_every_holding_bit_for_bit_and_members_have_sent():
    rng = np.random.default_rng(5)
    made = Made(symmetric(rng, 5), thermal_w=1e-3, hub_failure=1.0 - 1e-12)
    carried = made.carry()
    held = rng.normal(size=(5, SIZE))
    after, powers = sent(carried.announced, held, seed=1)
    np.testing.assert_array_equal(after, held)
    hub = int(np.flatnonzero(carried.nodes["hub_turns"])[0])
    assert (np.delete(powers[0], hub) > 0).all()
    assert powers[0][hub] == 0
    assert not carried.weights.heard.any()


def test_receivers_that_do_not_send_take_the_broadcast_alone_and_others_nothing():
    """A listener's model is in no sum: whatever it held before is gone; a node that is away keeps its own."""
    rng = np.random.default_rng(6)
    made = Made(symmetric(rng, 6))
    on_air, receivers = np.arange(6) < 4, np.arange(6) == 4
    carried = made.carry(on_air=on_air, receivers=receivers)
    held = rng.normal(size=(6, SIZE))
    after, powers = sent(carried.announced, held)
    np.testing.assert_allclose(after[:5], np.broadcast_to(held[:4].mean(axis=0), (5, SIZE)), atol=1e-12)
    np.testing.assert_array_equal(after[5], held[5])
    assert not powers[:, 4:].any()
    assert carried.weights.heard[4:].tolist() == [True, False]
    assert carried.weights.known.own[4] == 0


@pytest.mark.parametrize("thermal_w", [0.0, 1e-3])
def test_no_hub_takes_a_link_that_is_not_there_whatever_the_threshold(thermal_w):
    """Near the least number above 0: `truncate_snr_db = -inf`. A receiver without any link holds what it held."""
    h = symmetric(np.random.default_rng(7), 5)
    h[4], h[:, 4], h[0, 1], h[1, 0] = 0.0, 0.0, 0.0, 0.0
    made = Made(h, thermal_w=thermal_w, near_snr=np.finfo(np.float64).tiny)
    carried = made.carry(on_air=np.arange(5) < 4, receivers=np.arange(5) == 4)
    held = np.random.default_rng(8).normal(size=(5, SIZE))
    after, _ = sent(carried.announced, held, seed=2)
    assert np.isfinite(after).all()
    np.testing.assert_array_equal(after[4], held[4])
    assert all((step.rx != step.tx).all() for step in carried.announced)


def test_receiver_noise_of_collection_and_broadcast_is_that_of_the_formula():
    """2,000 draws of 26 coordinates: a variance has a standard error of sqrt(2 / 52,000) = .6%, 4 are allowed."""
    rng, count = np.random.default_rng(9), 2000 * SIZE
    thermal_w, power_w = 2e-3, rng.uniform(0.05, 0.5, 5)
    made = Made(symmetric(rng, 5), thermal_w=thermal_w, power_w=power_w, subslots=4)
    collect, broadcast = made.carry().announced
    hub, members = int(collect.rx[0]), collect.tx
    held = rng.normal(size=(5, count)) * np.array([1.0, 3.0, 0.3, 2.0, 5.0])[:, None]
    mean, now = held.mean(axis=0), torch.from_numpy(held.copy())
    rho = announced_rms(now).numpy()
    eta = np.min(np.abs(made.h[hub, members]) * np.sqrt(power_w[members]) / rho[members])
    _, first = send_announced(collect, now, torch.from_numpy(rng.normal(size=(1, count))))
    at_hub = now[hub].numpy().copy()
    tolerance = 4 * np.sqrt(2 / count)
    assert np.var(at_hub - mean) == pytest.approx(thermal_w / (eta * 5) ** 2, rel=tolerance)
    sent_rms = float(announced_rms(now)[hub])
    _, second = send_announced(broadcast, now, torch.from_numpy(rng.normal(size=(4, count))))
    assert broadcast.rx.tolist() == members.tolist()
    for j in members.tolist():
        expected = thermal_w * sent_rms**2 / (power_w[hub] * np.abs(made.h[j, hub]) ** 2)
        assert np.var(now[j].numpy() - at_hub) == pytest.approx(expected, rel=tolerance)
    # of the network's mean: (1 / K^2) (N0 / eta^2 + sum of what broadcasts add), which the engine reports
    found = np.var(now.numpy().mean(axis=0) - mean)
    assert found == pytest.approx(float(first + second) / 25, rel=tolerance)
    assert float(first) == pytest.approx(thermal_w / eta**2)


def test_errors_of_the_mean_are_those_that_the_choice_of_a_ratio_counts_on():
    """At a hub that collects all, 200 turns of two sub-slots; a sixteenth of an octave is up to 9% of a variance."""
    rng, phase_rad = np.random.default_rng(10), 0.1
    h = symmetric(rng, 5, 0.9, 1.1)
    made = Made(h, thermal_w=2e-3, power_w=[0.2] * 5, pilots=2, subslots=2, phase_error_rad=phase_rad)
    forecast = made.carrier.errors(np.abs(h))
    found = []
    for round in range(1, 201):
        collect, _ = made.carry(round).announced
        held = rng.normal(size=(5, SIZE))
        after, _ = sent([collect], held, round)
        found.append(np.mean((after[collect.rx[0]] - held.mean(axis=0)) ** 2))
    # the hub knows its own model: a fifth less of what estimates are off
    expected = (forecast.receiver + forecast.alignment - phase_rad**2 / 5) / 5
    assert np.mean(found) == pytest.approx(expected, rel=0.15)
    assert forecast.receiver < 2 * forecast.alignment < 20 * forecast.receiver
    assert forecast.apart < 1e-12


def test_emission_is_at_most_the_power_of_each_node_in_every_payload():
    """Per-node powers, pilots with errors, gains that fade by 30 dB within a turn; 40 frames."""
    rng = np.random.default_rng(11)
    power_w = rng.uniform(0.01, 1.0, 6)

    def moving(when_ns):
        return np.abs(0.51 + 0.49 * np.cos(2 * np.pi * when_ns / 40_000.0)) * np.exp(1j * when_ns / 1e5)

    most = 0.0
    for seed in range(40):
        h = symmetric(np.random.default_rng(seed), 6)
        made = Made(h, thermal_w=1e-4, power_w=power_w, pilots=4, moving=moving, subslots=5, phase_error_rad=0.2)
        held = rng.normal(size=(6, SIZE)) * 10.0 ** rng.uniform(-2, 2, (6, 1))
        _, powers = sent(made.carry().announced, held, seed)
        most = max(most, (powers / power_w).max())
    assert 0.9 < most <= 1.0 + 1e-12


@pytest.mark.parametrize("most_hz", [100.0, 9000.0])
def test_carriers_turn_from_a_pilot_to_its_payload_and_within_a_broadcast(most_hz):
    """Pilots of 4 us, guards of 1, sub-slots of 5, and a parabola through the four pilots of a broadcast."""
    cfo_hz = (most_hz * np.array([0.3, -1.0, 1.0, 0.1])).tolist()
    collect, broadcast = Made(symmetric(np.random.default_rng(3), 4), cfo_hz=cfo_hz).carry().announced
    hub = int(collect.rx[0])
    for number, node in enumerate(collect.tx.tolist()):
        apart_hz = cfo_hz[node] - cfo_hz[hub]
        kept = np.sinc(apart_hz * 5e-6)
        expected = kept * np.exp(2j * np.pi * apart_hz * (2 + 1 + 2.5) * 1e-6)
        np.testing.assert_allclose(collect.ratio[:, number], expected, atol=1e-12)
    for number, node in enumerate(broadcast.rx.tolist()):
        apart_hz = cfo_hz[node] - cfo_hz[hub]
        pilots_us, middles_us = 9.0 * np.arange(4), 9.0 * np.arange(3) + 4.5
        seen, true = (np.exp(-2j * np.pi * apart_hz * when_us * 1e-6) for when_us in (pilots_us, middles_us))
        real, imaginary = (np.polyval(np.polyfit(pilots_us, part, 2), middles_us) for part in (seen.real, seen.imag))
        expected = np.sinc(apart_hz * 5e-6) * true / (real + 1j * imaginary)
        np.testing.assert_allclose(broadcast.ratio[:, number], expected, atol=1e-9)


def test_airtime_of_a_turn_is_the_sum_of_its_parts():
    """5 nodes, 4 us of pilots each, guards of 1, numbers of 0.5; 13 symbols in 3 parts of 5."""
    made = Made(symmetric(np.random.default_rng(13), 5), number_s=5e-7)
    carried = made.carry()
    (hub,) = np.flatnonzero(carried.nodes["hub_turns"])
    pilots, choice, of_hub = 5 * 4, 2 * 5 * 0.5, 2 * 0.5
    collected, sent_back = 3 * (4 + 1 + 5 + 1), 4 * 4 + 3 * 5
    assert carried.uneven_ns == (1000 * (choice + of_hub + 1 + collected + sent_back),)
    whole, airtime = pilots + carried.uneven_ns[0] / 1000, carried.airtime
    is_hub = np.arange(5) == hub
    np.testing.assert_array_equal(airtime.payload_ns, 1000 * 15)
    np.testing.assert_array_equal(airtime.pilot_ns, 1000 * np.where(is_hub, 4 + 1 + 7 * 4 + of_hub, 4 + 1))
    np.testing.assert_array_equal(airtime.listening_ns + airtime.payload_ns + airtime.pilot_ns, 1000 * whole)


def test_models_are_asked_for_gains_in_the_order_of_time():
    made = Made(symmetric(np.random.default_rng(12), 6), hub_order="there-and-back", passes=1, hub_failure=0.3)
    made.carry()
    assert len(made.asked_ns) > 20
    assert made.asked_ns == sorted(made.asked_ns)


def test_preview_names_the_hubs_of_mean_gains():
    h = np.zeros((5, 5), complex)
    for k in range(4):
        h[k, k + 1] = h[k + 1, k] = 1.0
    made = Made(h, thermal_w=1e-3)
    preview = made.carrier.preview(made.channel, None, None)
    assert preview.facts["hubs"] == [1, 2, 3]
    assert preview.facts["unreached"] == 0
    assert preview.facts["disagreement"] == pytest.approx(made.carry().rounds["disagreement"])


# --- who shares noise with whom


def test_pairs_are_formed_within_components_alone():
    """Many nodes out of reach, four groups: numbers of groups meet none of nodes without partners."""
    nodes = 16
    component = np.array([-1] * 6 + [6, 6, 6, 6, 6, 6, 9, 9, 9, 9])
    on_air = component >= 0
    links = Links.from_mask(np.ones((nodes, nodes), dtype=bool), Geometry.at_rest(np.zeros((nodes, 3))))
    roster = roster_of(PairSettings("all", 1.4, 1, "coalition"), on_air, links, component)
    assert roster.partners.tolist() == [0] * 6 + [5] * 6 + [3] * 4
    component = np.array([-1] * 6 + [6] + [-1] + [8] * 8)
    on_air = component >= 0
    roster = roster_of(PairSettings(4, 1.4, 0, "coalition"), on_air, links, component)
    assert roster.partners.tolist() == [0] * 8 + [1] * 8
    assert (roster.joined < 2 * nodes).all()
    paired = roster.partners > 0
    assert not set(roster.joined[paired].tolist()) & set(roster.joined[~paired].tolist())
    for one, other in combinations(np.flatnonzero(paired).tolist(), 2):
        together = component[one] == component[other] and one % 4 == other % 4
        assert (roster.joined[one] == roster.joined[other]) == together
    noise = roster.noise(np.where(on_air, 1.0, 0.0))
    assert (noise.own[on_air] > 0).all()
