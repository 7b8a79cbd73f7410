"""Carrier and timing offsets: what is left of a symbol, where the rest goes, what it costs, and what it leaks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
import torch
from conftest import refusal, tiny, tiny_table
from interrupting import assert_resumes
from scipy.sparse import csr_array

from wirelessdl.leakage import link_mu
from wirelessdl.learning.superposition import Shifted, Superposer, SymbolOffsets, one_slot
from wirelessdl.links import Geometry, Links
from wirelessdl.radio.frame import Frame
from wirelessdl.radio.offsets import Offsets, masking_share
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.warnings import scenario_warnings
from wirelessdl.run.wiring import make_engine, make_observer, run_rounds
from wirelessdl.scenario.loader import load_scenario, parse_scenario

CARRIERS = [110.0, -60.0, 20.0, -90.0]  # Hz
CLOCKS = [0.0, 3e-7, -2e-7, 1e-7]  # s, at symbols of 1e-6 s
SPREAD = {"kind": "uniform", "low": -50.0, "high": 50.0}


FAR = {"nodes": 4, "placement": {"kind": "disc", "radius_m": 700.0}}  # up to four symbols at 1 MHz


class Arriving(Superposer):
    """The air; it keeps what arrived last, without receivers' own noise."""

    def superpose(self, segments, sent, out):
        before = out.clone()
        super().superpose(segments, sent, out)
        self.arrived = out - before


def heard_alone(network=None, **radio):
    """Frames in which node 0, 1, 2, 3 alone sends anything, through the whole engine.

    Gives the world, decisions, and complex symbols: sent [sender, n], arrived [sender, receiver, n].
    """
    scenario = tiny(
        scenario={"rounds": 4},
        privacy={"epsilon_max": float("inf")},
        power={"balance": False, "multiplier": "mean"},
        learning={"dtype": "float64"},
        network=network or {},
        radio=radio,
    )
    world = build(scenario, device="cpu")
    learning = world.learning
    tap = learning.exchange.air = Arriving(learning.exchange.device, learning.exchange.dtype)
    angle = np.random.default_rng(5).uniform(0, 2 * np.pi, (4, learning.learner.size // 2))
    sent = 0.3 * np.exp(1j * angle)
    arrived, decisions, inner = [], [], learning.round

    def one_speaks(given):
        learning._mixed.zero_()
        learning._step.zero_()
        learning._mixed[given.round - 1] = torch.from_numpy(sent[given.round - 1].copy().view(np.float64))
        result = inner(given)
        arrived.append(tap.arrived.numpy().copy().view(np.complex128))
        return result

    learning.round = one_speaks
    engine = make_engine(world)
    inner_close = engine.close_frame

    def close_frame(*arguments):
        inner_close(*arguments)
        decisions.append(engine._decision)

    engine.close_frame = close_frame
    run_rounds(world, engine)
    return world, decisions, sent, np.stack(arrived)


@pytest.fixture(scope="module")
def carriers():
    return heard_alone(cfo_hz=CARRIERS)


@pytest.fixture(scope="module")
def aligned():
    return heard_alone()


def pairs():
    return [(rx, tx) for rx in range(4) for tx in range(4) if rx != tx]


def test_carriers_attenuate_by_a_sinc_and_leave_the_rest_as_crosstalk(carriers, aligned):
    """Mean cos of c + x u, u uniform on (-1/2, 1/2): cos(c) sinc; of sin^2: (1 - cos(2c) sinc(twice as wide)) / 2."""
    world, _, sent, arrived = carriers
    payload_s = world.frame.symbols / 1e6
    weight = aligned[1][0].weights.actual.dense
    for rx, tx in pairs():
        apart = CARRIERS[tx] - CARRIERS[rx]
        from_pilot_s = (3.5 - tx) * 1e-6 + 1e-5 + payload_s / 2  # pilots still to come, guard, half of the payload
        constant = 2 * np.pi * apart * from_pilot_s
        turned = arrived[tx][rx] / (weight[rx, tx] * sent[tx])
        assert turned.real.mean() == pytest.approx(np.cos(constant) * np.sinc(apart * payload_s), rel=0.01)
        share = 0.5 * (1 - np.cos(2 * constant) * np.sinc(2 * apart * payload_s))
        assert (turned.imag**2).mean() == pytest.approx(share, rel=0.01)
        assert share > 0.05


def test_carriers_move_power_and_lose_none(carriers, aligned):
    """What is on a symbol's own axis and across it is all that was received, to the last digits; one's own is whole."""
    _, _, sent, arrived = carriers
    weight = aligned[1][0].weights.actual.dense
    for rx, tx in pairs():
        np.testing.assert_allclose(np.abs(arrived[tx][rx]), weight[rx, tx] * np.abs(sent[tx]), rtol=1e-12)
    for node in range(4):
        np.testing.assert_allclose(arrived[node][node], weight[node, node] * sent[node], rtol=1e-12)


def test_traced_weights_and_phases_are_what_arrives_on_average(carriers):
    _, decisions, sent, arrived = carriers
    for rx, tx in pairs():
        coordinate = np.mean(arrived[tx][rx] / sent[tx])
        assert decisions[tx].weights.actual.dense[rx, tx] == pytest.approx(coordinate.real, rel=1e-9)
        middle = decisions[tx].channel.heard.matrix(decisions[tx].channel.slots[0].phase_rad)[rx, tx]
        assert np.angle(coordinate * np.exp(-1j * middle) * np.sign(coordinate.real * np.cos(middle))) == (
            pytest.approx(0.0, abs=1e-9)
        )


def test_clocks_put_part_of_a_symbol_into_its_neighbour(aligned):
    world, decisions, sent, arrived = heard_alone(timing_offset_s=CLOCKS)
    weight = aligned[1][0].weights.actual.dense
    assert world.frame.slots == 1
    for rx, tx in pairs():
        share = (CLOCKS[tx] - CLOCKS[rx]) * 1e6
        w = sent[tx]
        nearby = np.stack([w, np.append(0, w[:-1]), np.append(w[1:], 0)], axis=1)
        found = np.linalg.lstsq(nearby, arrived[tx][rx] / weight[rx, tx], rcond=None)[0]
        np.testing.assert_allclose(found, [1 - abs(share), max(share, 0), max(-share, 0)], atol=1e-12)
        # independent symbols add up in power: (1 - b)^2 + b^2, but for the one that is heard in part at the edge
        power = np.mean(np.abs(arrived[tx][rx] / weight[rx, tx]) ** 2) / 0.09
        assert power == pytest.approx((1 - abs(share)) ** 2 + share**2, rel=0.03)  # 3925 symbols: 1.6% each
        assert decisions[0].weights.actual.dense[rx, tx] == pytest.approx((1 - abs(share)) * weight[rx, tx])


# --- flight time


def matched(symbols, late, n, points=2**20):
    """Symbol n of a receiver: rectangular pulses that arrive late, through a filter matched to one, oversampled."""
    sent = np.floor(n + (np.arange(points) + 0.5) / points - late).astype(np.int64)
    there = (sent >= 0) & (sent < len(symbols))
    return np.sum(symbols[sent[there]]) / points


@pytest.mark.parametrize("subbands", [1, 2])
def test_flight_time_is_the_convolution_of_delayed_pulses_with_the_matched_filter(aligned, subbands):
    clocks = {"timing_offset_s": CLOCKS}
    world, decisions, sent, arrived = heard_alone(FAR, flight_time=True, subbands=subbands, **clocks)
    weight, position_m = aligned[1][0].weights.actual.dense, world.links.geometry.position_m
    assert world.frame.slots == 1
    blocks, delays = world.frame.coordinates(2 * sent.shape[1]), []
    for rx, tx in pairs():
        delay_s = np.linalg.norm(position_m[rx] - position_m[tx]) / 299792458 + CLOCKS[tx] - CLOCKS[rx]
        delays.append(late := delay_s * 1e6 / subbands)
        for block, coordinates in zip(decisions[tx].channel.slots, blocks):
            phase = decisions[tx].channel.heard.matrix(block.phase_rad)[rx, tx]
            part = slice(coordinates.start // 2, coordinates.stop // 2)
            for n in (0, 1, 2, 5, len(sent[tx][part]) - 1):
                expected = weight[rx, tx] * np.exp(1j * phase) * matched(sent[tx][part], late, n)
                assert abs(arrived[tx][rx][part][n] - expected) < 1e-6
    assert max(delays) > 2 / subbands
    assert min(delays) < 1.5


def test_a_sender_is_in_phase_at_its_strongest_neighbour_and_at_no_other():
    for round, decision in enumerate(heard_alone(FAR, flight_time=True)[1]):
        (slot,) = decision.channel.slots
        phase, gain = (decision.channel.heard.matrix(values) for values in (slot.phase_rad, slot.gain_est))
        for tx in range(4):
            others = np.delete(np.arange(4), [tx, best := int(np.argmax(gain[:, tx]))])
            assert phase[best, tx] == 0
            assert (np.abs(phase[others, tx]) > 1e-3).all(), round
    assert np.abs(phase).max() <= np.pi


def test_without_fading_a_phase_turns_once_per_wavelength(tmp_path):
    """Nodes 1 and 2 at one distance of node 0, then 2 is moved away by a quarter of a wavelength."""
    quarter_m = 299792458 / 3.5e9 / 4
    phase = []
    for way_m in (100.0, 100.0 + quarter_m):
        (tmp_path / "places.csv").write_text(f"x_m,y_m\n0,0\n50,0\n{-way_m!r},0\n")
        network = {"nodes": 3, "placement": {"kind": "file", "file": str(tmp_path / "places.csv")}}
        world = build(tiny(network=network, channel={"models": [{"model": "friis"}]}, radio={"flight_time": True}))
        channel = make_observer(world).observe(1, 0.0)
        phase.append(channel.heard.matrix(channel.slots[0].phase_rad))
    turned = np.exp(1j * (phase[1] - phase[0]))
    assert turned[2, 0] == pytest.approx(-1j, abs=1e-6)
    assert turned[1, 0] == pytest.approx(1.0)
    assert turned[1, 2] == pytest.approx(1.0)  # node 2 aligns at 0; the way to both grew alike


def test_timing_errors_are_drawn_per_node_and_round():
    world = build(tiny(radio={"timing_error_s": 3e-7}))
    observer = make_observer(world)
    late = np.stack([observer.observe(round, float(round)).slots[0].late for round in range(1, 400)])
    links = world.links
    assert (late[:, links.tx == 0] == late[:, links.tx == 0][:, :1]).all()
    assert late.std() == pytest.approx(0.3, rel=0.05)  # 1,600 draws: 1.8% each
    assert abs(np.corrcoef(late[:-1, links.tx == 1][:, 0], late[1:, links.tx == 1][:, 0])[0, 1]) < 0.15


@pytest.mark.parametrize("access", ["tdma", "digital"])
def test_receivers_that_hear_one_sender_at_a_time_compensate_flight_time(access, tmp_path):
    given = {"power": {"objective": "own-noise"}, "channel": {"models": [{"model": "friis"}, {"model": "rayleigh"}]}}
    radio = {"access": access, "interference": "physical", "thermal_noise": True}
    one, other = (
        simulate(tiny(network=FAR, radio={**radio, **keys}, **given), out=tmp_path)
        for keys in ({}, {"flight_time": True, "timing_error_s": 1e-6})
    )
    for name in ("rounds", "nodes", "links"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)


def test_a_run_in_flight_goes_on_to_the_same_tables(tmp_path):
    table = tiny_table(
        scenario={"rounds": 45},
        network=FAR,
        channel={"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        radio={"flight_time": True, "timing_error_s": 1e-7, "thermal_noise": True},
        trace={"checkpoint_every": 20, "flush_every": 20},
    )
    assert_resumes(parse_scenario(table), tmp_path, 27)


@pytest.mark.slow
def test_the_idealised_air_is_at_chance_once_senders_have_one_phase_and_signals_take_time(tmp_path):
    """Ten classes: 10% by chance; 82% with phases aligned at every receiver at once."""
    scenario = load_scenario("scenarios/urban_er_k20_ideal.toml", overrides=("radio.flight_time=true",))
    assert simulate(scenario, out=tmp_path).summary["accuracy_mean"] < 0.2


def test_alignment_at_all_receivers_is_warned_of_where_gains_come_from_places():
    def warned(*models, **radio):
        power = {"objective": "own-noise"}
        channel = {"models": [{"model": name} if isinstance(name, str) else name for name in models]}
        lines = scenario_warnings(build(tiny(channel=channel, radio=radio, power=power)))
        return any("aligned at every receiver at once" in line for line in lines)

    assert warned("friis")
    assert warned("uniform", "rayleigh")
    assert warned({"model": "replay", "file": str(Path("scenarios/traces/crossing_ns3.parquet").resolve())})
    assert not warned("uniform")
    assert not warned("friis", flight_time=True)
    assert not warned("friis", access="tdma")


def test_only_differences_matter():
    """All carriers and clocks moved alike: the same to rounding, in spite of symbols that overlap."""
    radio = {"cfo_hz": CARRIERS, "timing_offset_s": CLOCKS}
    moved = {"cfo_hz": [f + 2e4 for f in CARRIERS], "timing_offset_s": [d + 4e-7 for d in CLOCKS]}
    np.testing.assert_allclose(heard_alone(**radio)[3], heard_alone(**moved)[3], atol=1e-11)


@pytest.mark.parametrize(
    "radio", [{"cfo_hz": 0}, {"cfo_hz": [0.0] * 4, "timing_offset_s": [0.0] * 4}, {"cfo_hz": 300.0}]
)
def test_equal_offsets_change_no_bit(radio, tmp_path):
    plain = {"phase_error_rad": 0.2, "payload_slots": 2}
    one, other = (simulate(tiny(radio=keys), out=tmp_path) for keys in (plain, {**plain, **radio}))
    for name in ("rounds", "nodes", "links", "privacy"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    assert build(tiny(radio=radio), device="cpu").offsets is None


def test_a_run_with_offsets_goes_on_to_the_same_tables(tmp_path):
    radio = {"cfo_hz": SPREAD, "timing_offset_s": {"kind": "choice", "values": [0.0, 2e-7]}, "phase_error_rad": 0.1}
    table = tiny_table(scenario={"rounds": 45}, radio=radio, trace={"checkpoint_every": 20, "flush_every": 20})
    whole = assert_resumes(parse_scenario(table), tmp_path, 27)
    assert whole.links.phase_rad.abs().max() > 0.3


# --- symbols alone


@pytest.mark.parametrize("sparse", [False, True])
def test_the_air_equals_loops_over_symbols_with_half_a_symbol_at_the_end(sparse):
    rng = np.random.default_rng(2)
    nodes, width, symbols = 3, 9, 7  # a slot that is not full
    amount = {part: rng.normal(size=(nodes, nodes)) + 1j * rng.normal(size=(nodes, nodes)) for part in (0, 1, -1, 3, 8)}
    ramp, sent = rng.normal(size=nodes), rng.normal(size=(nodes, width))
    matrix = csr_array if sparse else np.asarray
    (segment,) = one_slot(width, matrix(amount[0].real), np.zeros(nodes))
    shifted = tuple(Shifted(by, matrix(amount[by].real), matrix(amount[by].imag)) for by in (1, -1, 3, 8))
    offsets = SymbolOffsets(ramp, symbols, shifted)
    noise = rng.normal(size=(nodes, width))
    out = torch.from_numpy(noise.copy())
    Superposer(torch.device("cpu"), torch.float64).superpose(
        (replace(segment, crosstalk=matrix(amount[0].imag), offsets=offsets),), torch.from_numpy(sent), out
    )
    for i in range(nodes):
        for n in range(5):
            total = 0j
            for j in range(nodes):
                for by, weight in amount.items():
                    k = n - by
                    if 0 <= k < 5:
                        symbol = complex(sent[j][2 * k], sent[j][2 * k + 1] if 2 * k + 1 < width else 0.0)
                        total += weight[i][j] * symbol * np.exp(1j * (ramp[j] - ramp[i]) * (n - 3))
            assert out[i][2 * n] == pytest.approx(noise[i][2 * n] + total.real, rel=1e-12)
            if 2 * n + 1 < width:
                assert out[i][2 * n + 1] == pytest.approx(noise[i][2 * n + 1] + total.imag, rel=1e-12)


# --- privacy


def test_links_are_charged_at_least_what_a_receiver_can_get_out_of_overlapping_symbols():
    """The worst change of a model, found exactly by singular values, through carriers and clocks of all kinds."""
    rng, count, nodes = np.random.default_rng(1), 24, 4
    links_of = np.ones((nodes, nodes), dtype=bool)
    frame = Frame.from_settings(parameters=2 * count, nodes=nodes, pilots=1, bandwidth_hz=1e6, guard_s=0.0)
    gaps = []
    for trial in range(60):
        flight_hz = np.zeros(1) if trial >= 40 else None
        offsets = Offsets.from_nodes(
            rng.uniform(-2e4, 2e4, nodes), rng.uniform(0, 4.5e-7, nodes), 1e6, frame, flight_hz=flight_hz
        )
        links = Links.from_mask(links_of, Geometry.at_rest(rng.uniform(0, 12.0 * trial, (nodes, 3))))
        gain, power, noise = rng.uniform(0.2, 1, len(links)), rng.uniform(0.5, 1, nodes), rng.uniform(0.1, 1, nodes)
        given = {"model_w": power, "noise_w": noise, "step_sensitivity": np.ones(nodes), "thermal_w": 0.01}
        charged = links.matrix(link_mu(links, gain, masks_others=masking_share(offsets.lateness(links)), **given))
        in_step = links.matrix(link_mu(links, gain, **given))
        dense = links.matrix(gain)
        late, ramp = links.matrix(offsets.lateness(links)), offsets.ramp_rad
        for i in range(nodes):
            paths = {}
            for k in range(nodes):
                b = late[i][k]
                shares = {by: max(0.0, 1 - abs(b - by)) for by in range(-2, count)}
                turn = np.diag(np.exp(1j * (ramp[k] - ramp[i]) * np.arange(count)))
                paths[k] = dense[i][k] * turn @ sum(share * np.eye(count, k=-by) for by, share in shares.items())
            masking = 0.01 * np.eye(count) + sum(noise[k] * paths[k] @ paths[k].conj().T for k in paths if k != i)
            for j in paths:
                if j != i:
                    leak = paths[j].conj().T @ np.linalg.solve(masking, paths[j]) * power[j]
                    worst = np.sqrt(np.linalg.eigvalsh(leak)[-1])
                    assert worst <= charged[i][j] * (1 + 1e-9)
                    if flight_hz is None:
                        gaps.append((worst / in_step[i][j], charged[i][j] / worst))
    gaps = np.array(gaps)
    assert gaps[:, 0].max() > 1.2  # the charge of symbols in step would be too small
    assert np.median(gaps[:, 1]) < 1.5  # and this one is not far off


def test_carriers_leave_every_epsilon_as_it_is(tmp_path):
    one, other = (simulate(tiny(radio=radio), out=tmp_path) for radio in ({}, {"cfo_hz": SPREAD}))
    pd.testing.assert_series_equal(one.links.epsilon, other.links.epsilon, check_exact=True)
    pd.testing.assert_frame_equal(one.privacy, other.privacy, check_exact=True)
    assert not np.allclose(one.nodes.row_sum, other.nodes.row_sum)


# --- what is said


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("radio.cfo_hz=[1, 2]", "radio.cfo_hz has 2 entries; must be one number, a list with one per node"),
        ("radio.cfo_hz='much'", 'radio.cfo_hz is "much"; must be one number'),
        ("radio.cfo_hz=[0, 0, 1e5, 0]", "radio.cfo_hz of nodes 2 and 0 differs by 1e+05; must be below 1e+05, a tenth"),
        (
            "radio.timing_offset_s=[0, -6e-7, 0, 4e-7]",
            "radio.timing_offset_s of nodes 3 and 1 differs by 1e-06; must be below 1e-06, a symbol, 1 / bandwidth_hz",
        ),
        ("radio.timing_offset_s={kind='uniform', low=2, high=1}", "radio.timing_offset_s.low is 2; must not be above"),
    ],
)
def test_offsets_that_cannot_be_are_one_line(override, said, tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(tomli_w.dumps(tiny_table()))
    assert said in refusal(path, override)


def test_check_says_what_offsets_cost(tmp_path, wirelessdl_command):
    path = tmp_path / "tiny.toml"
    path.write_text(tomli_w.dumps(tiny_table(radio={"cfo_hz": [0.0, 100.0, 0.0, 0.0], "timing_offset_s": CLOCKS})))
    said = " ".join(wirelessdl_command("check", str(path)).out.split())
    across = 2 * np.pi * 100 * 3925e-6
    lost = -20 * np.log10(np.sinc(100 * 3925e-6))
    assert f"carriers up to 100 Hz apart, {across:.3g} rad across a payload slot ({lost:.2g} dB lost by sinc)" in said
    assert "timing up to 0.5 of a symbol apart (6 dB lost)" in said
    assert 'links may exceed epsilon_max; use objective = "own-noise"' in said
    path.write_text(tomli_w.dumps(tiny_table()))
    assert "offsets" not in wirelessdl_command("check", str(path)).out
