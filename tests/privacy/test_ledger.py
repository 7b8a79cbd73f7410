"""The ledger: assumptions, totals, budgets and kept states, against totals worked out here."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wirelessdl.gaussian import analytic_epsilon
from wirelessdl.privacy import AmplifiedAccountant, FrameRelease, Ledger, PrivacyAssumptions
from wirelessdl.privacy.counts import GRID
from wirelessdl.privacy.ledger import SenderTotals, add_to_stage
from wirelessdl.privacy.pld import SPARSE_ORDERS, compose, convert, rdp_table
from wirelessdl.privacy.terms import NOBODY_SENDS, adversary, adversary_in_short

DELTA = 1e-5
RATES = np.array([0.05, 0.2, 0.2])


def terms(protocol="hardened", sampler="without-replacement", clipping="per-sample", **more):
    return PrivacyAssumptions(protocol, sampler, clipping, DELTA, **more)


def release(round, own, links=(), on_air=None):
    rx, tx, mu = (np.array(values) for values in zip(*links)) if links else (np.zeros(0, dtype=np.int64),) * 3
    ones = np.ones(len(own))
    here = np.ones(len(own), dtype=bool) if on_air is None else np.array(on_air)
    return FrameRelease(round, here, ones, ones, np.array(own, dtype=float), rx, tx, mu.astype(float))


def ledger_of(slots, some=None, q=RATES):
    ledger = Ledger(some or terms(), q)
    for round, own in enumerate(slots, start=1):
        ledger.record(release(round, own))
    return ledger


def lower_end(mu):
    """Noise multiplier that a release is counted with."""
    return float(GRID.nu(GRID.cell(np.array([1 / mu])))[0])


def exact(q, releases, sampler="without-replacement"):
    """Composition of counted releases, {mu: how many}."""
    return compose({(q, lower_end(mu)): count for mu, count in releases.items()}, DELTA, sampler=sampler)


# --- what totals assume


@pytest.mark.parametrize(
    ("some", "own", "coalition"),
    [
        ({}, "all other nodes colluding", None),
        (
            {"coalition": 1, "promised": "coalition"},
            "all other nodes colluding",
            "any one node that hears every transmission",
        ),
        ({"coalition": 2}, "all other nodes colluding", "any 2 colluding nodes that hear every transmission"),
        ({"declared": "m.py:M"}, "all other nodes as m.py:M states it, which is not proven", None),
        ({"sends": False, "declared": "m.py:M"}, NOBODY_SENDS, NOBODY_SENDS),
    ],
)
def test_the_adversary_of_each_view_is_named(some, own, coalition):
    found = terms(**some)
    assert found.against("own") == own
    if coalition is not None:
        assert found.against("coalition") == coalition
    assert found.adversary == found.against(some.get("promised", "own"))
    assert adversary("own", 0) == "all other nodes colluding"
    assert found.shares_noise == ("coalition" in some)


def test_the_adversary_in_short():
    assert [adversary_in_short(c) for c in (None, 1, 2, 3)] == [
        "all other nodes",
        "any one node",
        "any 2 nodes",
        "any 3 nodes",
    ]


def test_links_are_counted_only_where_one_receivers_share_of_a_slot_is_known():
    assert terms().counts_links
    for some in ({"coalition": 1}, {"passes": True}, {"declared": "m.py:M"}, {"one_slot": False}):
        assert not terms(**some).counts_links


def test_conditions_name_what_a_run_has_and_nothing_else():
    for some, words in (
        ({"coalition": 2}, "at most 2 nodes collude"),
        ({"coalition": 2}, "a record is at one node only"),
        ({"passes": True}, "mixing passes carry what was received"),
        ({"declared": "m.py:M"}, "not proven: m.py:M"),
        ({"sends": False}, "nothing is sent"),
        ({"update": "m.py:M"}, "not proven: "),
        ({"kind": "change"}, "is clipped as a whole"),
        ({"gram": True}, "the Gram stage is one release"),
        ({"adjacency": "zero-out"}, "replaced by a null record"),
        ({"adjacency": "zero-out", "unit": "node"}, "replaced by as many null records"),
    ):
        assert any(words in line for line in terms(**some).conditions)
        assert not any(words in line for line in terms().conditions)
    assert any("is charged, 0 of the sensitivity" in line for line in terms().conditions)


# --- two views


def shared(round, own, coalition, links=()):
    return replace(release(round, own, links), coalition_mu=np.array(coalition, dtype=float), counts_links=False)


def test_the_view_against_a_coalition_is_charged_by_what_it_does_not_know():
    some = terms(sampler="full-batch", coalition=2, promised="coalition")
    ledger = Ledger(some, np.ones(3))
    for round in (1, 2):
        ledger.record(shared(round, [2.0, 1.0, 3.0], [0.2, 0.3, 0.1], [(0, 1, math.nan)]))
    views = dict(ledger.views())
    assert list(views) == ["own", "coalition"]
    for name, mu in (("own", [2.0, 1.0, 3.0]), ("coalition", [0.2, 0.3, 0.1])):
        expected = [analytic_epsilon(one * math.sqrt(2), DELTA) for one in mu]
        np.testing.assert_allclose(views[name].total(), expected, rtol=1e-12)
    assert ledger.promised is views["coalition"]
    assert len(ledger.link_number) == 0  # links are not accounted for
    assert [(one.view, one.status) for one in ledger.statements()] == [("own", "proven"), ("coalition", "proven")]
    everyone = Ledger(terms(sampler="full-batch", coalition=2), np.ones(3))
    assert everyone.promised is everyone.own
    alone = Ledger(terms(), RATES)
    assert (alone.coalition, alone.promised) == (None, alone.own)
    state = ledger.state()
    assert ledger.fits(state)
    assert not ledger.fits({**state, "coalition_counts": state["coalition_counts"] + 10**9})
    assert not ledger.fits({**state, "own_counts": state["own_counts"] + 10**9})


def test_totals_under_a_mechanism_of_the_users_are_unproven():
    ledger = Ledger(terms(declared="m.py:M"), RATES)
    ledger.record(release(1, [0.5] * 3))
    assert [(one.view, one.status) for one in ledger.statements()] == [("own", "unproven")]


def test_what_an_update_declares_is_no_proof():
    assert (terms().status, terms(update="m.py:M").status, terms(declared="m.py:M").status) == (
        "proven",
        "declared",
        "unproven",
    )
    assert "declaration" in terms(update="m.py:M").against("own")
    assert adversary_in_short(1, declared=True) == "any one node (not proven)"


def test_links_that_come_later_have_streams_of_their_own():
    ledger = Ledger(terms(), RATES)
    first, later = [(0, 1, 0.5), (2, 1, 0.25)], [(1, 0, 0.125)]
    for round, links in enumerate((first, first, later, first), start=1):
        ledger.record(release(round, [0.0] * 3, links))
    assert sorted(ledger.link_number.tolist()) == [1, 3, 7]
    (statement,) = [one for one in ledger.statements() if one.view == "link"]
    counted = dict(zip(zip(statement.rx.tolist(), statement.tx.tolist()), statement.rounds.tolist()))
    assert counted == {(0, 1): 3, (1, 0): 1, (2, 1): 3}


def test_the_order_in_which_links_are_told_does_not_matter():
    """Also where numbers of links are those of the streams before: 2 and 1 have streams 1 and 2 here."""

    def totals(last):
        ledger = Ledger(terms(), RATES)
        slots = ([(1, 0, 0.5), (0, 2, 0.5), (0, 1, 0.5)], [(0, 2, 0.9), (0, 1, 0.1)], last)
        for round, links in enumerate(slots, start=1):
            ledger.record(release(round, [0.0] * 3, links))
        (statement,) = [one for one in ledger.statements() if one.view == "link"]
        return statement.epsilon_total.tolist()

    last = [(0, 2, 0.9), (0, 1, 0.1)]
    assert totals(last) == totals(last[::-1])


# --- drawn batches


@pytest.mark.parametrize("protocol", ["hardened", "paper"])
@pytest.mark.parametrize("unit", ["sample", "node"])
@pytest.mark.parametrize("sampler", ["without-replacement", "poisson", "full-batch", "shuffled"])
def test_only_drawn_batches_of_the_hardened_protocol_amplify_and_only_for_one_sample(protocol, unit, sampler):
    epochs = (3, 3, 3) if sampler == "shuffled" else ()
    some = terms(protocol, sampler, unit=unit, epoch_rounds=epochs)
    best = protocol == "hardened" and unit == "sample"
    assert some.amplified == (best and sampler in ("without-replacement", "poisson"))
    assert some.by_epoch == (best and sampler == "shuffled")
    by_round = any("batches are drawn anew each round" in line for line in some.conditions)
    assert by_round == (sampler != "shuffled")
    assert any("epochs count" in line for line in some.conditions) == some.by_epoch
    ledger = ledger_of([[0.0] * 3, [0.5] * 3, [0.4] * 3], some)
    if not some.amplified and not some.by_epoch:
        assert ledger.own.total()[0] == pytest.approx(analytic_epsilon(math.sqrt(0.25 + 0.16), DELTA), rel=1e-12)
    if some.by_epoch:  # both gradients are of the first epoch
        assert ledger.own.total()[0] == pytest.approx(analytic_epsilon(0.5, DELTA), rel=1e-12)
    assert ledger.statements()[0].accountant == ("pld" if some.amplified else "gdp")


def test_terms_say_what_is_protected_and_what_is_not_covered():
    sample, node = terms(), terms(unit="node")
    assert (sample.protects, node.protects) == ("one sample (replace-one)", "all data of one node (replace-one)")
    assert sample.conditions[0].startswith("one sample of one node")
    assert node.conditions[0].startswith("all data of one node")
    assert sample.conditions[-1].endswith("the last update is never shown")
    assert "no amplification" in terms("paper").conditions[-2]
    assert terms("paper").conditions[-1] == "accuracy is of what was received"
    assert "which the total does not cover" in terms("paper", evaluated="own").conditions[-1]
    assert sample.adjacency == "replace-one"


# --- totals


@pytest.mark.parametrize(
    ("sampler", "clipping", "profile"),
    [
        ("without-replacement", "per-sample", "without-replacement"),
        ("poisson", "per-sample", "poisson"),
        ("poisson", "batch", "without-replacement"),
    ],
)
def test_totals_are_the_exact_composition_of_each_senders_own_releases(sampler, clipping, profile):
    ledger = ledger_of(
        [[0.0] * 3, [0.9, 0.9, 0.0], [0.9, 0.4, 0.0], [0.9, 0.0, 0.0]], terms(sampler=sampler, clipping=clipping)
    )
    expected = [exact(0.05, {0.9: 3}, profile), exact(0.2, {0.9: 1, 0.4: 1}, profile), 0.0]
    np.testing.assert_allclose(ledger.own.total(), expected, rtol=1e-12)
    np.testing.assert_array_equal(ledger.own.total(), ledger.own.total())
    assert ledger.own.rounds.tolist() == [3, 2, 0]
    assert (ledger.own.bound() >= ledger.own.total()).all()
    assert ledger.own.bound()[0] > 1.5 * expected[0]  # running totals are loose


def test_who_is_not_on_air_is_not_charged():
    ledger = Ledger(terms(), RATES)
    ledger.record(release(1, [0.5, 0.5, 0.5], on_air=[True, False, True]))
    assert ledger.own.rounds.tolist() == [1, 0, 1]
    assert (ledger.own.bound() > 0).tolist() == [True, False, True]


def test_a_release_without_noise_has_no_total():
    ledger = ledger_of([[np.inf, 5000.0, 0.5]])
    assert ledger.own.total().tolist()[:2] == [np.inf, np.inf]
    assert np.isfinite(ledger.own.total()[2])


def test_totals_beyond_protection_are_the_smaller_of_two_bounds():
    """Noise of a tenth, sampled hard: nothing is composed, and the total is what needs no composition."""
    ledger = ledger_of([[30.0, 30.0, 30.0]] * 2, q=np.array([0.05, 0.2, 1.0]))
    nu = lower_end(30.0)
    gdp = analytic_epsilon(math.sqrt(2) / nu, DELTA)
    assert gdp > 200
    total, bound = ledger.own.total(), ledger.own.bound()
    assert total[2] == pytest.approx(gdp, rel=1e-12)
    assert (total <= np.minimum(bound, gdp) * (1 + 1e-12)).all()
    assert (total > 200).all()


def test_the_worst_of_few_senders_is_exact():
    rates = np.array([0.1, 0.3, 0.2, 0.4])
    ledger = ledger_of([[0.5, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.1]], q=rates)
    # three senders made the same releases: the one with the largest rate leads
    known = ledger.own.known()
    assert np.isnan(known).tolist() == [True, False, True, False]
    assert known[1] == pytest.approx(exact(0.3, {0.5: 2}), rel=1e-12)
    assert known[1] == ledger.own.total().max()
    quiet = ledger_of([[0.0] * 4], q=rates)
    assert quiet.own.known().tolist() == [0.0] * 4
    paper = ledger_of([[0.5, 0.2, 0.1, 0.0]], terms("paper"), q=rates)
    assert paper.own.known().max() == pytest.approx(analytic_epsilon(0.5, DELTA), rel=1e-12)
    assert Ledger(terms("paper"), np.zeros(0)).own.known().size == 0


def test_of_two_senders_with_equal_releases_the_one_that_was_in_a_stage_is_not_passed_over():
    """Second moments are released whole: the same slots beside them cost more, at the same sampling rate."""
    own = SenderTotals(terms(), np.array([0.1, 0.1, 0.1]))
    own.record(1, np.array([1, 2]), np.array([0.4, 0.4]), whole=True)
    assert own.known().tolist() == own.total().tolist()  # nothing to compose yet
    own.record(2, np.arange(3), np.full(3, 0.5))
    assert own.known().tolist() == own.total().tolist()
    assert own.known()[1] == own.known()[2] > own.known()[0]


def test_what_a_stage_released_whole_is_composed_unamplified_in_both_views_and_kept():
    stage, some = np.array([1.3, 0.4, 30.0]), terms(gram=True, coalition=1, promised="coalition")
    rest = np.array([0.9, 0.0, 0.5])
    ledger = Ledger(some, RATES)
    ledger.record(replace(shared(1, 2 * stage, stage), stage=True))
    np.testing.assert_allclose(ledger.coalition.total(), analytic_epsilon(stage, DELTA), rtol=1e-9)
    np.testing.assert_allclose(ledger.own.total(), analytic_epsilon(2 * stage, DELTA), rtol=1e-9)
    assert ledger.own.rounds.tolist() == [0, 0, 0]
    first = ledger.coalition.bound()
    np.testing.assert_allclose(first, convert(0.5 * stage[:, None] ** 2 * SPARSE_ORDERS, DELTA), rtol=1e-12)
    for round in (2, 3):
        ledger.record(shared(round, rest, rest))
    again = Ledger(some, RATES)
    again.restore(ledger.state())
    mixed = compose({(0.05, lower_end(0.9)): 2, (1.0, 1 / 1.3): 1}, DELTA, sampler="without-replacement")
    for each in (ledger, again):
        found = each.coalition.total()
        assert found[0] == pytest.approx(mixed, rel=1e-9)
        assert found[1] == pytest.approx(analytic_epsilon(0.4, DELTA), rel=1e-9)
        assert found[2] > analytic_epsilon(30.0, DELTA)
        np.testing.assert_array_equal(each.own.total(), ledger.own.total())
    assert not any("whole" in name for name in Ledger(terms(), RATES).state())


def test_beyond_composition_a_stage_counts_in_the_cheap_bounds():
    own = SenderTotals(terms(), np.array([0.01]))
    own.record(1, np.array([0]), np.array([15.0]), whole=True)
    for round in range(2, 1002):
        own.record(round, np.array([0]), np.array([4.0]))
    rows = rdp_table(tuple(SPARSE_ORDERS.tolist()), np.array([0.01]), np.array([lower_end(4.0)]))
    renyi = convert(1000 * rows + 0.5 * 15.0**2 * SPARSE_ORDERS, DELTA)[0]
    assert 5000 < renyi < analytic_epsilon(math.sqrt(15.0**2 + 1000 * 4.0**2), DELTA)
    assert own.total()[0] == own.total_of(0) == pytest.approx(renyi, rel=1e-12)


def test_frames_of_a_stage_add_up_to_the_largest():
    charged, added = add_to_stage(np.array([0.0, 3.0, 3.0, 0.0]), np.array([2.0, 5.0, 1.0, 0.0]))
    np.testing.assert_allclose(charged, [2.0, 5.0, 3.0, 0.0], rtol=2e-9)
    assert (charged[:2] > [2.0, 5.0]).all()
    np.testing.assert_allclose(added, [2.0, 4.0, 0.0, 0.0], rtol=2e-8)
    assert add_to_stage(charged, charged)[1].tolist() == [0.0] * 4
    assert add_to_stage(charged, np.array([2.0, 5.0, 3.0, 0.0]))[1].tolist() == [0.0] * 4


@pytest.mark.parametrize("sampler", ["without-replacement", "poisson"])
def test_zeroed_samples_are_counted_by_the_noise_over_the_sensitivity_of_replaced_ones(sampler):
    """mu of a zeroed sample is half of that of a replaced one; Poisson batches need no more than that."""
    slots = [[0.45, 0.45, 0.0], [0.45, 0.2, 0.0], [0.45, 0.0, 0.0]]
    zeroed = ledger_of(slots, terms(sampler=sampler, adjacency="zero-out"))
    halves = 2.0 if sampler == "poisson" else 1.0
    for node, releases in enumerate([{0.45: 3}, {0.45: 1, 0.2: 1}, {}]):
        counts = {(RATES[node], halves * lower_end(2 * mu)): count for mu, count in releases.items()}
        composed = compose(counts, DELTA, sampler="without-replacement") if counts else 0.0
        whole = math.sqrt(sum(count / (2 * lower_end(2 * mu)) ** 2 for mu, count in releases.items()))
        expected = min(composed, analytic_epsilon(whole, DELTA))
        assert zeroed.own.total_of(node) == pytest.approx(expected, rel=1e-12)
    every = ledger_of(slots, terms(sampler=sampler, adjacency="zero-out"), q=np.ones(3))
    gdp = analytic_epsilon(math.sqrt(3) / (2 * lower_end(0.9)), DELTA)  # nothing is drawn: what it is without sampling
    assert every.own.total_of(0) == pytest.approx(gdp, rel=1e-12)


def test_zeroed_samples_have_budgets_and_links_of_twice_their_mu_where_batches_are_drawn_without_replacement():
    mu, links = np.array([0.45, 0.3, 0.1]), [(0, 1, 0.45), (1, 2, 0.2)]
    zeroed, replaced = Ledger(terms(adjacency="zero-out"), RATES), Ledger(terms(), RATES)
    for round in (1, 2, 3):
        zeroed.record(release(round, mu, links))
        replaced.record(release(round, 2 * mu, [(rx, tx, 2 * one) for rx, tx, one in links]))
    for name in ("tx", "rx", "rounds", "epsilon_total"):
        np.testing.assert_array_equal(getattr(zeroed.statements()[-1], name), getattr(replaced.statements()[-1], name))
    np.testing.assert_array_equal(zeroed.own.bound(), replaced.own.bound())
    budgets = replaced.own.total() * 1.1
    for budget in budgets.tolist():
        assert zeroed.own.exhausted(mu, budget).tolist() == replaced.own.exhausted(2 * mu, budget).tolist()


def test_a_total_of_one_sender_is_that_of_all():
    for some in (terms(), terms("paper")):
        own = SenderTotals(some, RATES)
        own.record(1, np.arange(3), np.array([0.5, 0.2, 0.0]))
        assert [own.total_of(node) for node in range(3)] == own.total().tolist()
        assert own.rounds.tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match=r"mu of a release is -2\.0; must be >= 0, or inf without noise"):
        own.record(2, np.arange(4), np.array([0.0, 0.5, -2.0, math.nan]))


def test_without_noise_totals_are_told_at_any_rate():
    assert ledger_of([[np.inf] * 3]).own.known().tolist() == [np.inf] * 3


@pytest.mark.parametrize(("first", "second", "told"), [(24, 0, True), (23, 1, True), (24, 1, False), (25, 0, False)])
def test_two_dozen_kinds_of_releases_are_composed_at_an_evaluation(first, second, told):
    own = SenderTotals(terms(), RATES)
    for sender, kinds in enumerate((first, second, 0)):
        for kind in range(kinds):
            own.record(kind + 1, np.array([sender]), np.array([0.2 * 1.05**kind]))
    assert np.isfinite(own.known()).all() == told


def test_the_worst_of_many_senders_is_not_told_before_it_is_composed():
    rng = np.random.default_rng(0)
    rates = np.array([0.1, 0.3, 0.2, 0.15])
    ledger = ledger_of(np.exp(rng.normal(-1.5, 0.4, (12, 4))).tolist(), q=rates)
    assert sum(len(cells) for cells in ledger.own.cells) > 24
    assert np.isnan(ledger.own.known()).all()
    assert ledger.own.total().max() < ledger.own.bound().max()


def test_shuffled_epochs_are_told_apart_by_the_round_of_the_slot():
    """A transmission carries the gradient of the slot before: three of epoch 1, three of epoch 2, one of epoch 3."""
    mu = [0.0, 0.5, 0.2, 0.3, 0.1, 0.1, 0.4, 0.2]
    ledger = ledger_of([[value, 0.0, value] for value in mu], terms(sampler="shuffled", epoch_rounds=(3, 3, 1)))
    epochs, rounds = 0.5**2 + 0.4**2 + 0.2**2, sum(value**2 for value in mu)
    expected = analytic_epsilon(np.sqrt([epochs, 0.0, rounds]), DELTA)
    np.testing.assert_allclose(ledger.own.total(), expected, rtol=1e-12)


def test_a_release_that_nothing_amplifies_is_composed_as_one_of_all_samples():
    """Zero-out without replacement: its mu is that of the adjacency, mu of training is replace-one, twice as large."""
    totals, one = SenderTotals(terms(adjacency="zero-out"), np.array([0.2])), np.zeros(1, dtype=np.int64)
    totals.record(1, one, np.array([0.7]), whole=True)
    assert totals.bound()[0] >= totals.total_of(0) >= analytic_epsilon(0.7, DELTA) * (1.0 - 1e-9)
    for round in (2, 3):
        totals.record(round, one, np.array([0.3]))
    expected = compose({(0.2, lower_end(0.6)): 2, (1.0, 1 / 0.7): 1}, DELTA)
    assert totals.total_of(0) == pytest.approx(expected, rel=1e-9)
    sampled = AmplifiedAccountant(np.array([0.2]))
    for _ in range(2):
        sampled.record(one, np.array([0.6]))
    np.testing.assert_allclose(totals.accountant.total, sampled.total + 0.5 * 0.7**2 * SPARSE_ORDERS, rtol=1e-12)


def test_a_gram_stage_is_of_no_epoch():
    """Both frames count, and of the two gradients of the epoch that they are sent in the larger one."""
    totals = SenderTotals(terms(sampler="shuffled", epoch_rounds=(3,)), np.ones(1))
    for round, mu in enumerate((0.3, 0.4, 0.5, 0.2), start=1):
        totals.record(round, np.zeros(1, dtype=np.int64), np.array([mu]), whole=round <= 2)
    assert totals.total_of(0) == pytest.approx(analytic_epsilon(math.sqrt(0.3**2 + 0.4**2 + 0.5**2), DELTA), rel=1e-12)


# --- budgets


def test_a_budget_is_used_up_to_the_last_release_that_fits_whatever_was_released_before():
    """Equal releases, one of other noise among them, and noise that is new."""
    for slots in ([[0.4] * 3] * 5, [[0.4] * 3] * 4 + [[0.3] * 3], [[0.3] * 3] * 4):
        ledger, more = ledger_of(slots), np.full(3, 0.4)
        after = ledger_of([*slots, more.tolist()]).own.total()
        assert ledger.promised.exhausted(more, float(after[1])).tolist() == [False, False, False]
        assert ledger.promised.exhausted(more, float(np.nextafter(after[1], 0))).tolist() == [False, True, True]
        assert ledger.promised.exhausted(more, float(after[0])).tolist() == [False, True, True]
        assert ledger.promised.exhausted(more, 0.9 * float(after[0])).tolist() == [True, True, True]


def test_a_transmission_without_a_gradient_costs_nothing_and_is_never_over_budget():
    ledger = ledger_of([[0.4] * 3] * 5)
    spent = ledger.own.total()
    assert (ledger.own.bound() > spent).all()
    assert not ledger.promised.exhausted(np.zeros(3), float(spent.max())).any()
    paper = ledger_of([[0.4] * 3] * 5, terms("paper"))
    assert not paper.promised.exhausted(np.zeros(3), float(paper.own.total().max())).any()


@pytest.mark.parametrize("fits", [1, 2, 3, 6, 7, 13])
def test_as_many_equal_releases_fit_as_a_budget_was_made_for(fits):
    budget = exact(0.2, {0.5: fits})
    ledger, sent = Ledger(terms(), RATES[1:2]), 0
    while not ledger.promised.exhausted(np.array([0.5]), budget)[0]:
        sent += 1
        ledger.record(release(sent, [0.5]))
    assert sent == fits


def test_a_long_run_is_stopped_at_the_release_its_budget_was_made_for():
    cell = int(GRID.cell(np.array([2.0]))[0])
    budget = exact(0.2, {0.5: 200})
    for held, over in ((199, False), (200, True)):
        ledger = Ledger(terms(), RATES[1:2])
        ledger.own.counts.restore(np.array([[cell + 1], [held]]))
        ledger.own.accountant.total[:] = np.inf  # a running bound that decides nothing
        assert ledger.promised.exhausted(np.array([0.5]), budget)[0] == over


def test_a_release_that_no_budget_covers_is_refused_at_once():
    ledger = ledger_of([[0.1, 0.1, 0.1]])
    assert ledger.promised.exhausted(np.array([np.inf, 5000.0, 0.1]), 3.0).tolist() == [True, True, False]
    assert Ledger(terms(), RATES).promised.exhausted(np.array([np.inf, 5000.0, 2.0]), 0.01).tolist() == [
        True,
        True,
        True,
    ]
    lowest = 1 / GRID.nu(np.array([0]))[0] * 0.9999  # the noisiest release that the grid still holds
    # between the exact epsilon, about mu^2 / 2, and the running bound, about mu^2
    assert not Ledger(terms(), RATES).promised.exhausted(np.full(3, lowest), 7e5).any()


def test_a_budget_beyond_all_releases_is_no_limit():
    ledger = ledger_of([[1e-4, 1e-4, 1e-4]])
    assert not ledger.promised.exhausted(np.full(3, 1e-4), 0.02).any()


def test_budgets_without_amplification_count_squares():
    ledger = ledger_of([[0.3, 0.3, 0.3]], terms("paper"))
    budget = analytic_epsilon(math.sqrt(0.09 + 0.16), DELTA)
    assert ledger.promised.exhausted(np.array([0.39, 0.4, 0.41]), budget * (1 + 1e-12)).tolist() == [False, False, True]


# --- links and kept states


def with_links():
    ledger = Ledger(terms(), RATES)
    ledger.record(release(1, [0.5, 0.5, 0.5], [(2, 0, 0.4), (2, 1, 0.3)]))
    ledger.record(release(2, [0.5, 0.2, 0.0], [(0, 1, 0.6), (2, 0, 0.4)]))
    ledger.record(release(3, [0.5, 0.2, 0.0], [(0, 1, 0.6), (1, 2, 0.7), (2, 1, 0.3)]))
    return ledger


def test_links_are_charged_with_their_own_releases_at_their_senders_rate():
    own, link = with_links().statements()
    assert (own.view, own.status, link.view, link.status) == ("own", "proven", "link", "unproven")
    assert (own.accountant, link.accountant) == ("pld", "rdp-wang19")
    assert (own.tx.tolist(), own.rx.tolist(), own.rounds.tolist()) == ([0, 1, 2], [-1, -1, -1], [3, 3, 1])
    np.testing.assert_array_equal(own.epsilon_total, with_links().own.total())
    assert list(zip(link.rx.tolist(), link.tx.tolist())) == [(0, 1), (1, 2), (2, 0), (2, 1)]
    assert link.rounds.tolist() == [2, 1, 2, 2]
    counted = AmplifiedAccountant(np.array([0.2, 0.2, 0.05, 0.2]))
    for stream in ([0, 1, 2, 3], [0, 2, 3]):
        counted.record(np.array(stream), np.array([0.6, 0.7, 0.4, 0.3])[stream])
    np.testing.assert_allclose(link.epsilon_total, counted.epsilon(DELTA), rtol=1e-12)


def test_releases_of_links_are_told_by_the_links_number():
    stream, _, count = with_links().link_counts().entries()
    assert dict(zip(stream.tolist(), count.tolist())) == {1: 2, 5: 1, 6: 2, 7: 2}


def test_while_a_run_goes_on_only_running_bounds_are_stated():
    (own,) = with_links().statements(exact=False)
    assert own.accountant == "rdp-wang19"
    np.testing.assert_array_equal(own.epsilon_total, with_links().own.bound())
    assert ledger_of([[0.5] * 3], terms("paper")).statements(exact=False)[0].accountant == "gdp"


def test_a_restored_ledger_states_and_charges_the_same():
    kept = with_links()
    again = Ledger(terms(), RATES)
    again.restore(kept.state())
    for ledger in (kept, again):
        ledger.record(release(4, [0.1, 0.5, 0.5], [(1, 0, 0.2), (2, 1, 0.3)]))
    for mine, its in zip(again.statements(), kept.statements()):
        for field in ("tx", "rx", "rounds", "epsilon_total"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(its, field))
    np.testing.assert_array_equal(again.own.bound(), kept.own.bound())


@pytest.mark.parametrize(
    "change",
    [
        {"link_number": np.array([6, 7, 1, -1])},
        {"link_number": np.array([6, 7, 1, 9])},
        {"link_number": np.array([6, 7, 1, 1])},
        {"own_counts": np.array([[10**9], [1]])},
        {"own_counts": np.array([[5], [0]])},
        {"link_counts": np.array([[4 * (GRID.cells + 1)], [1]])},
    ],
)
def test_a_state_of_another_network_does_not_fit(change):
    ledger, state = Ledger(terms(), RATES), with_links().state()
    assert ledger.fits(state)
    assert ledger.fits({**state, "link_number": np.array([0, 8, 1, 5])})
    assert not ledger.fits({**state, **change})


def test_a_ledger_that_charges_less_is_noticed():
    slots = [[0.5, 0.5, 0.5], [0.3, 0.3, 0.3]]
    ledger = ledger_of(slots)
    assert ledger.own.charges_at_least(ledger_of(slots).own).all()
    many = [[mu] * 3 for mu in (0.5, 0.3, 0.11, 0.07, 0.9, 0.23)]
    for turn in range(1, 6):  # the same sums in another order
        assert ledger_of(many).own.charges_at_least(ledger_of(many[turn:] + many[:turn]).own).all()
    assert ledger_of([[0.0, 0.0, 0.5]]).own.charges_at_least(ledger_of([[0.0, 0.0, 0.5]]).own).all()
    assert ledger.own.charges_at_least(ledger_of([[0.5, 0.6, 0.4], [0.3, 0.3, 0.3]]).own).tolist() == [
        True,
        False,
        True,
    ]
    assert ledger_of([[0.5, 0.5, 0.5]]).own.charges_at_least(ledger.own).tolist() == [False, False, False]
    same_counts = ledger_of(slots)
    same_counts.own.accountant.total *= 1 - 1e-6
    assert not same_counts.own.charges_at_least(ledger.own).any()
    same_totals = Ledger(terms(), RATES)
    same_totals.own.accountant.total[:] = ledger.own.accountant.total
    assert not same_totals.own.charges_at_least(ledger.own).any()
