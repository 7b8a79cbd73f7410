"""Payloads in several subbands: the grid, what it changes and what not, and what each block leaks."""

import math

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import refusal, tiny, tiny_table

import wirelessdl
from wirelessdl.gaussian import analytic_epsilon, slot_epsilon
from wirelessdl.radio.frame import Frame, subband_offset_hz
from wirelessdl.round.engine import Hooks
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine, make_observer, run_rounds

SELECTIVE = {"models": [{"model": "log-distance"}, {"model": "tdl", "delay_spread_s": 3e-7}]}
SMALL = {"dataset": {"kind": "synthetic", "features": 30, "samples": 200, "classes": 3}, "batch_size": 6}


# --- the grid


@pytest.mark.parametrize(("parameters", "slots", "subbands"), [(7850, 1, 16), (7850, 3, 7), (101, 2, 5), (93, 4, 8)])
def test_blocks_share_all_coordinates_evenly(parameters, slots, subbands):
    given = {"parameters": parameters, "nodes": 4, "pilots": 3, "bandwidth_hz": 1e6, "guard_s": 1e-5, "slots": slots}
    one, many = Frame.from_settings(**given), Frame.from_settings(**given, subbands=subbands)
    parts = many.coordinates(parameters)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == parameters
    sizes = {part.stop - part.start for part in parts[: (many.slots - 1) * subbands]}
    assert sizes <= {2 * many.block_symbols, 2 * many.block_symbols - 2}
    # slots begin where they did; the payload is longer by less than one symbol of every subband
    assert [part.start for part in parts[::subbands]] == [part.start for part in one.coordinates(parameters)]
    assert 0 <= many.payload_ns - one.payload_ns < subbands * 1000
    assert many.own_pilot_ns == subbands * one.own_pilot_ns  # every subband has pilots of its own


def test_centres_lie_evenly_around_the_carrier():
    np.testing.assert_allclose(subband_offset_hz(20e6, 4), [-7.5e6, -2.5e6, 2.5e6, 7.5e6])
    assert subband_offset_hz(1e6, 1).tolist() == [0.0]


# --- what it changes


@pytest.mark.parametrize("radio", [{}, {"mixing_passes": 2}, {"access": "tdma"}, {"duplex": "half"}], ids=str)
def test_subbands_of_a_flat_channel_change_nothing_but_pilots(radio, tmp_path):
    """Equal gains in all blocks: the same weights, noise and models as in one band, to the last digits of float64."""
    given = {
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"thermal_noise": True, "power_dbm": 10.0, **radio},
        "power": {"objective": "own-noise"},
        "learning": {**SMALL, "dtype": "float64"},
        "scenario": {"rounds": 6},
    }
    one = simulate(tiny(**given), out=tmp_path)
    many = simulate(tiny(**{**given, "radio": {**given["radio"], "subbands": 7}}), out=tmp_path)
    columns = ["gain", "gain_est", "weight", "snr_db"] + ["epsilon"] * ("mixing_passes" not in radio)
    np.testing.assert_allclose(one.links[columns], many.links[columns], rtol=1e-12)
    np.testing.assert_allclose(one.nodes["loss"], many.nodes["loss"], rtol=1e-12)
    np.testing.assert_allclose(one.privacy["epsilon_total"], many.privacy["epsilon_total"], rtol=1e-12)
    assert (many.rounds["pilot_s"] == 7 * one.rounds["pilot_s"]).all()
    assert any("no channel model depends on frequency" in words for words in many.summary["warnings"])


def test_the_ramp_of_clocks_over_subbands_is_aligned_by_the_pilots_of_each():
    """-2 pi F (d_j - d_i) is seen by every subband's own pilots; what is left of clocks is the end of a symbol."""
    late_s = [0.0, 3e-8, -2e-8, 1e-8]
    world = build(tiny(channel=SELECTIVE, radio={"timing_offset_s": late_s, "subbands": 5}, learning=SMALL))
    channel = make_observer(world).observe(1, 0.0)
    channel = world.offsets.aligned(channel, world.access.schedule(1, channel.links))
    assert all(block.phase_rad is None for block in channel.slots)
    assert np.abs(world.offsets.lateness(channel.heard)).max() == pytest.approx(5e-8 * 2e5)


# --- what blocks leak


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Six subbands by two slots, nodes mask each other, blocks traced."""
    scenario = tiny(
        scenario={"rounds": 4},
        network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.7}},
        channel=SELECTIVE,
        radio={"subbands": 6, "payload_slots": 2, "csi": {"kind": "pilots", "symbols": 8}, "thermal_noise": True},
        power={"schedule": "adaptive", "alpha_min": 1e-6},
        learning=SMALL,
        trace={"blocks": True},
    )
    return scenario, simulate(scenario, out=tmp_path_factory.mktemp("traced"))


def test_links_are_means_and_worst_cases_of_their_blocks(traced):
    _, run = traced
    blocks, links = run.blocks, run.links.set_index(["round", "rx", "tx"]).sort_index()
    assert len(blocks) == 12 * len(links)
    assert sorted(set(zip(blocks["slot"], blocks["subband"]))) == [(n, k) for n in range(2) for k in range(6)]
    by_link = blocks.groupby(["round", "rx", "tx"])
    for name in ("gain", "gain_est"):
        rms = np.sqrt(blocks.assign(square=blocks[name] ** 2).groupby(["round", "rx", "tx"])["square"].mean())
        np.testing.assert_allclose(rms, links[name], rtol=1e-12)
    np.testing.assert_allclose(by_link["weight"].mean(), links["weight"], rtol=1e-12)
    np.testing.assert_array_equal(by_link["epsilon"].max(), links["epsilon"])
    assert (by_link["gain"].max() / by_link["gain"].min()).median() > 1.5  # subbands differ
    assert wirelessdl.open_run(run.path).blocks.equals(blocks)


def test_epsilon_of_every_block_by_hand(traced):
    """Theorem 1 with the gains of the block, all of a sample's change in it; the frame has the largest."""
    scenario, run = traced
    columns = ["alpha", "beta", "sent_learning_rate", "sent_multiplier"]
    nodes = run.nodes.set_index(["round", "node"])[columns].to_dict("index")
    rho, delta = scenario.privacy.rho, scenario.privacy.delta
    exact = 2 * scenario.privacy.clip_norm / scenario.learning.batch_size
    sens = run.clients["sensitivity"].to_numpy()  # of each node: rounding before the noise is charged
    assert ((sens > exact) & (sens < exact * (1 + 1e-5))).all()
    budget_w = 10 ** (30 / 10 - 3)
    checked = 0
    last = run.blocks[run.blocks["round"] == 4]
    for (round, _, _), block in last.groupby(["round", "slot", "subband"]):
        for link in block.itertuples():
            sender = nodes[round, link.tx]
            step = sender["sent_learning_rate"] * sender["sent_multiplier"]
            masking = 0.0
            for other in block[block["rx"] == link.rx].itertuples():
                masker = nodes[round, other.tx]
                masking += other.gain**2 * masker["beta"] * budget_w * (rho * masker["sent_learning_rate"]) ** 2
            shift = sens[link.tx] * step * link.gain * math.sqrt(sender["alpha"] * budget_w)
            expected = 0.0 if shift == 0 else float(slot_epsilon(np.array([shift / math.sqrt(masking)]), delta)[0])
            assert link.epsilon == pytest.approx(expected, rel=1e-9)
            checked += expected > 0
    assert checked > 100


def test_a_receiver_gets_no_more_out_of_a_frame_than_its_worst_block_says():
    """mu of a change in any direction, from the very segments that are superposed; in the worst block it is reached."""
    world = build(
        tiny(
            scenario={"rounds": 3},
            network={"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.7}},
            channel=SELECTIVE,
            radio={"subbands": 6, "payload_slots": 2},
            power={"schedule": "adaptive", "alpha_min": 1e-6},
            learning=SMALL,
        )
    )
    records = []
    engine = make_engine(world, hooks=Hooks(on_record=records.append))
    run_rounds(world, engine)
    decision, rng, m = records[-1].decision, np.random.default_rng(0), world.learning.learner.size
    release, plan, heard = decision.release, decision.plan, decision.channel.heard
    segments = engine._segments.steps(decision)[0].segments
    assert len(segments) == 12
    noise = np.sqrt(plan.beta / plan.alpha) * decision.sigma
    reach = world.exposure.sensitivity * release.gamma * release.multiplier
    for n, (rx, tx) in enumerate(zip(heard.rx.tolist(), heard.tx.tolist())):
        others = np.arange(world.nodes) != rx  # a receiver knows its own noise

        def frame_mu(change, rx=rx, tx=tx, others=others):
            square = 0.0
            for segment in segments:
                deviation = np.sqrt(np.sum((segment.weights[rx] * noise)[others] ** 2))
                square += np.sum((segment.weights[rx, tx] * change[segment.coordinates] / deviation) ** 2)
            return math.sqrt(square)

        for _ in range(5):
            change = rng.standard_normal(m)
            change *= reach[tx] / np.linalg.norm(change)
            assert frame_mu(change) <= release.link_mu[n] * (1 + 1e-9)
        worst = segments[int(np.argmax(release.block_mu[:, n]))].coordinates
        change = np.zeros(m)
        change[worst.start] = reach[tx]
        assert frame_mu(change) == pytest.approx(release.link_mu[n], rel=1e-9)


def test_proven_totals_are_those_of_one_band_and_of_a_hand_count(tmp_path):
    """Own noise of a sender does not depend on gains: mu = sens theta sqrt(alpha) / (rho sqrt(beta)) every round."""
    given = {
        "scenario": {"rounds": 5},
        "channel": SELECTIVE,
        "power": {"objective": "own-noise", "schedule": "adaptive"},
        "learning": {**SMALL, "sampling": "full"},
    }
    one, many = (simulate(tiny(**given, radio={"subbands": n}), out=tmp_path) for n in (1, 8))
    own = [run.privacy[run.privacy["view"] == "own"].reset_index(drop=True) for run in (one, many)]
    pd.testing.assert_frame_equal(*own)
    # full batches: T - 1 Gaussian releases compose to one of mu sqrt(T - 1)
    sens = many.clients["sensitivity"].to_numpy()  # 2C/n, and rounding before the noise
    exact = 2 / many.clients["samples"].to_numpy()
    assert ((sens > exact) & (sens < exact * (1 + 1e-5))).all()
    last = many.nodes[many.nodes["round"] == 5]
    scenario = tiny(**given)
    mu = sens * 4 * np.sqrt(last["alpha"] / last["beta"]) / scenario.privacy.rho
    expected = [analytic_epsilon(m * math.sqrt(4), scenario.privacy.delta_total) for m in mu]
    np.testing.assert_allclose(own[1]["epsilon_total"], expected, rtol=1e-6)


# --- resume and refusals


@pytest.mark.parametrize(
    ("radio", "words"),
    [
        ({"subbands": 0}, "radio.subbands is 0"),
        ({"subbands": 1.5}, "radio.subbands is 1.5"),
        ({"subbands": 2, "access": "digital"}, "a message is coded over the whole band: set subbands = 1"),
        ({"subbands": 64}, "radio.subbands is 64; a slot carries 47 symbols, and every subband needs one"),
        ({"subbands": 10, "cfo_hz": [0.0, 2e4, 0.0, 0.0]}, "a tenth of bandwidth_hz / subbands"),
        ({"subbands": 4, "timing_offset_s": [0.0, 5e-6, 0.0, 0.0]}, "a symbol, subbands / bandwidth_hz"),
    ],
)
def test_bad_subbands_are_one_line(tmp_path, radio, words):
    table = tiny_table(radio=radio, learning=SMALL, power={"objective": "own-noise"})
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    assert words in refusal(tmp_path / "x.toml")


NARROW = """
import numpy as np

class Narrow:
    small_scale = True
    def gain(self, links, time_s, rng):
        return np.ones(len(links))
    def response(self, links, time_s, offset_hz, rng):
        return {answer}
"""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("np.ones((len(links), 3))", "Narrow.response returned shape (12, 3), expected (3, 12)"),
        ("np.full((3, len(links)), np.nan)", "Narrow.response returned nan+0j for link 1 -> 0 in subband 0"),
        ("np.exp(-2j * np.pi * 1e-7 * offset_hz)[:, None] * np.ones(len(links))", None),
    ],
)
def test_a_users_response_is_checked(tmp_path, answer, words):
    (tmp_path / "narrow.py").write_text(NARROW.format(answer=answer))
    table = tiny_table(channel={"models": [{"model": "narrow.py:Narrow"}]}, radio={"subbands": 3}, learning=SMALL)
    (tmp_path / "x.toml").write_text(tomli_w.dumps(table))
    if words is None:
        simulate(wirelessdl.load_scenario(tmp_path / "x.toml"), out=tmp_path / "outputs")
    else:
        assert words in refusal(tmp_path / "x.toml")
