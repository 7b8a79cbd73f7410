"""Pairwise-cancelling noise, in runs: its covariance, who sends what in mixing passes, closing passes, ratio zero."""

import numpy as np
import pytest
import torch
from conftest import tiny_table
from watching import Watched

import wirelessdl
from wirelessdl.audit.wiretap import unnoised_models
from wirelessdl.links import Geometry, Links
from wirelessdl.mechanism.pairwise import PairSettings, roster_of
from wirelessdl.scenario.loader import parse_scenario

OWN = {"objective": "own-noise", "schedule": "adaptive", "alpha_min": 1e-6}
PRIVATE = {"noise": "pairwise", "coalition": 1, "pair_ratio": 1.4, "epsilon_max": 1.0, "rho": 1.0}
FADING = {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]}
FULL = {"dtype": "float64", "sampling": "full"}
NETWORK = {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.5}}


def table(rounds=4, **sections):
    given = {
        "scenario": {"rounds": rounds},
        "network": NETWORK,
        "channel": FADING,
        "radio": {"thermal_noise": True, "payload_slots": 1},
        "power": OWN,
        "privacy": PRIVATE,
        "learning": {"dtype": "float64"},
    }
    for name, section in sections.items():
        given[name] = {**given.get(name, {}), **section}
    return tiny_table(**given)


# --- what is transmitted


def transmitted(**sections):
    """Noise that was sent, [K, numbers], the decisions, and a of every round."""
    watched = Watched(table(**sections))
    learning, noise, own, models = watched.world.learning, [], [], []
    superpose, inner = learning.exchange.air.superpose, learning.round

    def heard(segments, sent, out):
        noise.append((sent - models[-1]).numpy().copy())
        superpose(segments, sent, out)

    def round(given):
        own.append(given)
        models.append(unnoised_models(learning, given))
        return inner(given)

    learning.exchange.air.superpose, learning.round = heard, round
    watched.run()
    return noise, watched.decisions, own


@pytest.mark.parametrize("pairs", ["all", "neighbours", {"groups": 2}], ids=["all", "neighbours", "groups"])
def test_transmitted_noise_has_the_covariance_of_the_formula(pairs):
    """Twenty rounds of 7,850 coordinates each, drawn alike: four standard errors of 157,000 draws, each of 15."""
    constant = {"learning_rate": {"kind": "constant", "initial": 0.05}, "dtype": "float64"}
    noise, decisions, given = transmitted(rounds=20, privacy={**PRIVATE, "pairs": pairs}, learning=constant)
    units, b_squares = [], None
    for sent, one, input in zip(noise, decisions, given):
        pairing = input.pairs
        own = pairing.own
        square = np.zeros((5, 5))
        if pairing.group is None:
            square[pairing.low, pairing.high] = square[pairing.high, pairing.low] = pairing.pair**2
        else:
            same = (pairing.group[:, None] == pairing.group) & (pairing.group >= 0)
            square = same * ~np.eye(5, dtype=bool) * pairing.pair[:, None] ** 2
        links = {(min(i, j), max(i, j)) for i, j in zip(one.channel.links.rx.tolist(), one.channel.links.tx.tolist())}
        expected = {
            "all": {(i, j) for i in range(5) for j in range(i + 1, 5)},
            "neighbours": links,
        }.get(pairs if isinstance(pairs, str) else "", {(0, 2), (0, 4), (2, 4)})  # 1 and 3: one may be the coalition
        assert {(i, j) for i, j in zip(*np.nonzero(np.triu(square)))} == expected
        np.testing.assert_allclose(square[square > 0], 1.4**2 * own[np.nonzero(square)[0]] ** 2, rtol=1e-12)
        units.append(sent / own.max())  # in units of one a, that rounds may be put together
        relative = (np.diag(own**2) + np.diag(square.sum(axis=1)) - square) / own.max() ** 2
        b_squares = relative if b_squares is None else b_squares
        np.testing.assert_allclose(relative, b_squares, rtol=1e-9, atol=1e-12)
        partners = (square > 0).sum(axis=1)
        np.testing.assert_allclose(np.diagonal(relative), (own / own.max()) ** 2 * (1 + partners * 1.4**2), rtol=1e-9)
    draws = np.concatenate(units, axis=1)
    count = draws.shape[1]
    found = draws @ draws.T / count
    deviation = np.sqrt((np.outer(np.diagonal(b_squares), np.diagonal(b_squares)) + b_squares**2) / count)
    assert np.abs((found - b_squares) / deviation).max() < 4.0
    mean = draws.mean(axis=0)
    alone = float(np.mean(np.diagonal(b_squares) / (1 + (b_squares < 0).sum(axis=1) * 1.4**2))) / 5  # a^2 / K
    assert np.mean(mean**2) == pytest.approx(alone, rel=3 * np.sqrt(2 / count))


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["all", "neighbours"])
def test_one_coordinate_has_the_covariance_of_the_formula_over_two_thousand_rounds(pairs):
    """Over rounds, not coordinates: noise that came again, or shrank, would show here and nowhere else."""
    constant = {"learning_rate": {"kind": "constant", "initial": 0.05}, "batch_size": 2, "eval_every": 2000}
    watched = Watched(table(rounds=2000, privacy={**PRIVATE, "pairs": pairs}, learning=constant))
    learning, draws, sigmas, owns, models = watched.world.learning, [], [], [], []
    superpose, inner = learning.exchange.air.superpose, learning.round

    def heard(segments, sent, out):
        draws.append((sent - models[-1])[:, 17].numpy().copy())
        superpose(segments, sent, out)

    def round(given):
        pairing, square = given.pairs, np.zeros((5, 5))
        if pairing.group is None:
            square[pairing.low, pairing.high] = square[pairing.high, pairing.low] = pairing.pair**2
        else:
            square = ~np.eye(5, dtype=bool) * pairing.pair[:, None] ** 2
        owns.append(pairing.own)
        models[:] = [unnoised_models(learning, given)]
        sigmas.append(np.diag(pairing.own**2 + square.sum(axis=1)) - square)
        return inner(given)

    learning.exchange.air.superpose, learning.round = heard, round
    watched.run()
    noise, sigma = np.array(draws), sigmas[0]
    for one in sigmas:
        np.testing.assert_allclose(one, sigma, rtol=1e-9)  # the learning rate is constant, and so are sizes
    size = np.sqrt(np.outer(np.diagonal(sigma), np.diagonal(sigma)))
    found = noise.T @ noise / 2000
    assert (np.abs(found - sigma) / np.sqrt((size**2 + sigma**2) / 2000)).max() < 3.0
    after = noise[1:].T @ noise[:-1] / 1999  # of each round with the next: nothing
    assert (np.abs(after) / (size / np.sqrt(1999))).max() < 3.5  # 25 entries
    # what pairs share cancels: a^2 / K is left in the mean
    assert np.mean(noise.mean(axis=1) ** 2) == pytest.approx(np.sum(owns[0] ** 2) / 25, rel=3 * np.sqrt(2 / 2000))


def test_rounds_share_no_noise():
    noise, *_ = transmitted(rounds=3, privacy={**PRIVATE, "pairs": "neighbours"})
    first, second = noise[0].ravel(), noise[1].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 3 / np.sqrt(5 * 7850 / 5)


def test_without_a_ratio_noise_is_independent():
    """Pairs that share nothing draw what every node draws by itself."""
    for pairs in ("all", "neighbours", {"groups": 2}):
        zero = Watched(table(privacy={**PRIVATE, "pair_ratio": 0.0, "pairs": pairs})).run()
        alone = Watched(table(privacy={"noise": "independent"})).run()
        np.testing.assert_allclose(zero.after_round, alone.after_round, rtol=1e-13, atol=1e-15)
        for one, other in zip(zero.decisions, alone.decisions):
            np.testing.assert_allclose(one.release.own_mu, other.release.own_mu, rtol=1e-12)
            np.testing.assert_allclose(one.release.coalition_mu, other.release.own_mu, rtol=1e-12)


# --- who sends what in passes

CHURN = {
    "time": {
        "compute": {"kind": "constant", "seconds": [0.01, 0.01, 0.01, 0.025, 0.01]},
        "policy": {"kind": "deadline", "cap_s": 0.012},
    },
    "faults": {
        "rejoin": "listen",
        "crashes": {"kind": "schedule", "events": [{"node": 4, "at_s": 0.05, "for_s": 0.01}]},
        "blockage": {"kind": "schedule", "events": [{"rx": 4, "tx": k, "from_s": 0.05} for k in range(4)]},
    },
    "network": {"nodes": 5, "topology": {"kind": "full"}},
}


@pytest.mark.parametrize("radio", [{}, {"mixing": "plain"}, {"duplex": "half"}, {"access": "tdma"}])
def test_only_who_sent_the_payload_sends_in_passes(radio):
    """Late nodes, listeners that heard nobody, nodes over budget: nobody hears them, and they keep what they held."""
    given_radio = {"thermal_noise": True, "payload_slots": 1, "mixing_passes": 2, **radio}
    privacy = {**PRIVATE, "budget_total": 1.6}
    watched = Watched(table(rounds=9, radio=given_radio, privacy=privacy, learning=FULL, **CHURN))
    engine, held = watched.world.learning, []
    inner = engine.round

    def round(given):
        before = engine.mixed(), engine.x.numpy()
        result = inner(given)
        held.append((given, before, (engine.mixed(), engine.x.numpy())))
        return result

    engine.round = round
    watched.run()
    kinds = set()
    for one, (given, before, after) in zip(watched.decisions, held):
        away = ~one.on_air
        late, listens = ~one.participation.ready, one.participation.listening
        silent = away & one.participation.willing
        kinds |= {name for name, who in (("late", late), ("listens", listens), ("silent", silent)) if who.any()}
        np.testing.assert_array_equal(given.pairs.on_air, one.on_air)
        assert len(given.steps) == 1 + 2
        assert not given.noise_scale[away].any()
        for part in given.steps:
            for segment in part.segments:
                weights = segment.weights if isinstance(segment.weights, np.ndarray) else segment.weights.toarray()
                assert not (weights - np.diag(np.diagonal(weights)))[:, away].any()
                np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
        for one_pass in given.steps:
            np.testing.assert_array_equal(one_pass.heard[away], 1.0)
            assert not one_pass.before[away].any()
        kept = late | (listens & ~one.weights.heard)
        for was, now in zip(before, after):
            np.testing.assert_array_equal(now[kept], was[kept])
        # who fell silent takes its last step back and never makes another
        assert not given.update.step[silent].any()
    assert kinds == {"late", "listens", "silent"}


def test_a_silent_node_holds_only_what_it_received():
    """Its model is the projection of its last mix, in the frame in which it falls silent and in all that follow."""
    radio = {"thermal_noise": True, "payload_slots": 1, "mixing_passes": 2}
    watched = Watched(table(rounds=6, radio=radio, privacy={"budget_total": 1.6}, learning=FULL))
    engine, seen = watched.world.learning, []
    inner = engine.round

    def round(given):
        result = inner(given)
        seen.append((given, engine.mixed(), engine.x.numpy()))
        return result

    engine.round = round
    watched.run()
    quiet = [(mixed[~one.on_air], x[~one.on_air]) for one, (_, mixed, x) in zip(watched.decisions, seen)]
    assert sum(len(mixed) for mixed, _ in quiet) > 0
    for mixed, x in quiet:
        np.testing.assert_array_equal(x, mixed)  # within the ball, so projection changes nothing


# --- power of passes

LOUD = {"thermal_noise": True, "payload_slots": 2, "mixing_passes": 3, "interference": "physical"}


@pytest.mark.parametrize(
    ("radio", "radius", "jammer_dbm"),
    [
        ({**LOUD, "use_full_power": True}, 0.03, None),
        ({**LOUD, "mixing": "plain"}, 0.5, -74.0),
        ({**LOUD, "access": "tdma", "interference": "none"}, 0.5, -74.0),
    ],
    ids=["strangers", "plain, strangers and a jammer", "turns and a jammer"],
)
def test_who_holds_more_than_its_power_carries_scales_it_down(radio, radius, jammer_dbm):
    """Node by node: what is sent, what comes of it, and the power in the table; who sends nothing is not limited."""
    network = {"nodes": 6, "topology": {"kind": "ring"}}
    jammer = "none" if jammer_dbm is None else {"kind": "noise", "power_dbm": jammer_dbm}
    learning = {**FULL, "projection_radius": radius}
    seconds = [0.01, 0.01, 0.01, 0.025, 0.01, 0.01]  # node 3 is late now and then
    time = {"compute": {"kind": "constant", "seconds": seconds}, "policy": {"kind": "deadline", "cap_s": 0.012}}
    given = {"radio": radio, "network": network, "learning": learning, "faults": {"jammer": jammer}, "time": time}
    watched = Watched(table(rounds=5, **given))
    engine, frames = watched.world.learning, []
    inner, payload = engine.round, engine.exchange.air.superpose
    later = engine.exchange.held_air.superpose

    def heard(superpose):
        def listened(segments, sent, out):
            given = sent.numpy().copy()
            superpose(segments, sent, out)
            frames[-1][1].append((given, out.numpy().copy()))

        return listened

    def round(given):
        frames.append([given, []])
        result = inner(given)
        frames[-1] += [engine.mixed(), result.held_power.numpy().copy()]
        return result

    engine.exchange.air.superpose, engine.exchange.held_air.superpose, engine.round = (
        heard(payload),
        heard(later),
        round,
    )
    watched.run()
    limited, free, away = 0, 0, 0
    for one, (given, slots, mixed, power) in zip(watched.decisions, frames):
        (w, s), *passes = slots
        most = one.carried.steps[1].limit
        np.testing.assert_array_equal(np.isfinite(most), one.on_air)
        for node in range(len(w)):
            before, y = w[node], s[node]
            y = given.steps[0].heard[node] * y + given.steps[0].before[node] * w[node]
            radiated = 0.0
            for part, (sent, received) in zip(given.steps[1:], passes):
                square = sum(value**2 for value in y) / len(y)
                if square > most[node]:
                    factor = (most[node] / square) ** 0.5
                    y, before, limited = y * factor, before * factor, limited + 1
                else:
                    free += 1
                np.testing.assert_allclose(sent[node], y, rtol=1e-9, atol=1e-12)
                radiated += sum(value**2 for value in y) / len(y)
                y, before = part.heard[node] * received[node] + part.before[node] * before, y
            if not one.on_air[node]:  # it keeps what it held before
                away += 1
                continue
            np.testing.assert_allclose(mixed[node], y, rtol=1e-9, atol=1e-12)
            assert power[node] == pytest.approx(radiated, rel=1e-9)
            sent_w = one.carried.steps[1].power_w[node] * power[node] / len(passes)
            assert sent_w <= one.plan.power_w[node] * (1 + 1e-12)
    assert limited > 0
    assert free > 0
    assert away > 0


# --- closing passes


@pytest.mark.parametrize("mixing", ["chebyshev", "plain"])
def test_the_last_frame_has_closing_passes_too(mixing):
    radio = {"thermal_noise": False, "payload_slots": 2, "mixing_passes": 2, "mixing": mixing}
    watched = Watched(table(rounds=3, radio=radio, learning={"closing_passes": 4, "dtype": "float64"}))
    engine, given, means = watched.world.learning, [], []
    superpose, inner = engine.exchange.air.superpose, engine.round

    def heard(segments, sent, out):
        means.append(sent.mean(dim=0))
        superpose(segments, sent, out)

    def round(one):
        given.append(one)
        result = inner(one)
        # mixing is doubly stochastic, so the mean of all that was sent is the mean of what nodes hold
        torch.testing.assert_close(engine._mixed.mean(dim=0), means[-1], rtol=1e-9, atol=1e-12)
        return result

    engine.exchange.air.superpose, engine.round = heard, round
    watched.run()
    assert [len(one.steps) - 1 for one in given] == [2, 2, 2 + 4]
    for one in given:
        total = [part.heard + part.before for part in one.steps]
        np.testing.assert_allclose(total, 1.0, rtol=1e-12)
        assert (mixing == "plain") == all(part.plain for part in one.steps)
    frame = watched.world.frame
    slot_ns = frame.pilot_ns + frame.payload_ns + 2 * frame.guard_ns
    for one, passes in zip(watched.decisions, (2, 2, 6)):
        assert one.frame.passes == passes
        assert one.frame.airtime_ns == 2 * (1 + passes) * slot_ns + frame.feedback_ns + frame.exchange_ns
        assert one.frame.sending_ns[0] == 2 * (1 + passes) * frame.payload_ns
        assert len(one.channel.further) == passes
    ends = [event.time_ns - event.decision.opened_ns for event in watched.events["learning.update"]]
    assert ends[2] - ends[1] == 4 * 2 * slot_ns


def test_passes_cost_energy_and_no_epsilon(tmp_path):
    def run(passes, closing):
        radio = {"thermal_noise": True, "payload_slots": 1, "mixing_passes": passes}
        given = table(rounds=3, radio=radio, learning={"closing_passes": closing})
        return wirelessdl.simulate(parse_scenario(given), out=tmp_path / f"{passes}-{closing}")

    none, two, closed = run(0, 0), run(2, 0), run(2, 5)
    for key in ("epsilon_own_total", "epsilon_coalition_total", "epsilon_total"):
        assert none.summary[key] == two.summary[key] == closed.summary[key] > 0
    assert two.summary["epsilon_total"] == two.summary["epsilon_coalition_total"] < two.summary["epsilon_own_total"]
    assert none.summary["epsilon_link_total"] is None
    assert two.summary["epsilon_link_total"] is None
    # by hand: the power of the payload over its time, that of passes over theirs
    for run in (two, closed):
        payload_s = run.rounds.payload_s.iloc[0]
        spent = run.nodes.merge(run.rounds[["round", "passes"]], on="round")
        expected = (spent.power_w + spent.passes * spent.pass_power_w) * payload_s
        np.testing.assert_allclose(spent.energy_tx_j, expected, rtol=1e-6)
    assert two.rounds.passes.tolist() == [2, 2, 2]
    assert closed.rounds.passes.tolist() == [2, 2, 7]
    assert (closed.nodes.pass_power_w > 0).all()
    assert none.nodes.pass_power_w.isna().all()
    assert (closed.nodes.pass_power_w <= 1.0).all()  # the budget, W
    energy = [run.nodes[run.nodes["round"] == 3].energy_tx_j.sum() for run in (none, two, closed)]
    assert energy[0] < energy[1] < energy[2]


@pytest.mark.parametrize("pairs", ["all", "neighbours", 1])
def test_pairs_that_the_coalition_may_hold_altogether_are_not_formed(pairs):
    links = Links.from_mask(np.ones((5, 5), bool), Geometry.at_rest(np.arange(15.0).reshape(5, 3)))
    terms = PairSettings(pairs, 2.0, 3, "coalition")
    few, all_five = np.array([1, 1, 1, 1, 0], dtype=bool), np.ones(5, dtype=bool)
    unpaired = roster_of(terms, few, links)
    assert not unpaired.partners.any()
    assert (unpaired.own_share == 1.0).all()
    assert len(set(unpaired.joined[few].tolist())) == 4  # each its own noise, none for another's sake
    assert unpaired.noise(np.arange(1.0, 6.0)).own.tolist() == [1.0, 2.0, 3.0, 4.0, 0.0]
    assert roster_of(terms, all_five, links).partners.tolist() == [4] * 5
