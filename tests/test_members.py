"""A member of each family, defined outside the package: it works, and totals are worth what its kind allows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import tiny_table
from watching import Watched

from wirelessdl import families, simulate
from wirelessdl.access import Carried
from wirelessdl.errors import ContractError, ScenarioError
from wirelessdl.radio.frame import Participation
from wirelessdl.scenario.loader import parse_scenario

ACCESS = """
import numpy as np

class Gossip:
    '''Every node keeps half, and takes the other half from the mean of its neighbours, as if they came undisturbed.'''
    def __init__(self, kept: float = 0.5):
        self.kept = kept
    def mix(self, links, gain, amplitude, on_air):
        heard = np.bincount(links.rx, minlength=links.nodes)
        weight = (1 - self.kept) / heard[links.rx]
        return weight, np.where(heard > 0, self.kept, 1.0), np.zeros(links.nodes)

class Noisy(Gossip):
    def mix(self, links, gain, amplitude, on_air):
        weight, own, noise = super().mix(links, gain, amplitude, on_air)
        return weight, own, noise + 1e-9

class Backwards(Gossip):
    '''An own weight below 0 makes 1/z_ii negative.'''
    def mix(self, links, gain, amplitude, on_air):
        heard = np.bincount(links.rx, minlength=links.nodes)
        return 1.02 / heard[links.rx], np.full(links.nodes, -0.02), np.zeros(links.nodes)

class Counts(Gossip):
    def mix(self, links, gain, amplitude, on_air):
        self.kept *= 0.9
        return super().mix(links, gain, amplitude, on_air)

class Short(Gossip):
    def mix(self, links, gain, amplitude, on_air):
        return super().mix(links, gain, amplitude, on_air)[:2]

class Nan(Gossip):
    def mix(self, links, gain, amplitude, on_air):
        weight, own, noise = super().mix(links, gain, amplitude, on_air)
        return weight * np.nan, own, noise
"""
MECHANISM = """
from dataclasses import replace
from wirelessdl.mechanism import Protection

class Louder:
    '''Own noise of so many times the variance that the plan asks for.'''
    def __init__(self, factor: float = 4.0):
        self.factor = factor
    def protect(self, plan, on_air, links, sigma):
        return Protection(replace(plan, alpha=1 / (1 + self.factor * plan.beta / plan.alpha)))

class Nothing:
    def protect(self, plan, on_air, links, sigma):
        return None
"""
UPDATE = """
class Extrapolated:
    '''A step from s + b (s - s_before), with the gradient taken there.'''
    def __init__(self, b: float = 0.5):
        self.b = b
    def initial(self, received):
        return {"before": received}
    def base(self, received, state, round):
        moved = received + self.b * (received - state["before"])
        return moved, moved, {"before": received}

class Counts(Extrapolated):
    def base(self, received, state, round):
        self.b *= 0.9
        return super().base(received, state, round)

class Huge(Extrapolated):
    def base(self, received, state, round):
        return received.double() * 0 + 1e300, received, state

class Forgets(Extrapolated):
    def base(self, received, state, round):
        return received, received, {}
"""
OWN = {"objective": "own-noise", "alpha_min": 1e-9}
NETWORK = {"nodes": 5, "topology": {"kind": "erdos-renyi", "p": 0.6}}


@pytest.fixture
def folder(tmp_path):
    for name, text in (("access", ACCESS), ("mechanism", MECHANISM), ("update", UPDATE)):
        (tmp_path / f"my_{name}.py").write_text(text)
    return tmp_path


def table(rounds=4, **sections):
    given = {"network": NETWORK, "power": OWN, "scenario": {"rounds": rounds}, **sections}
    given["learning"] = {"dtype": "float64", **given.get("learning", {})}
    return tiny_table(**given)


def watched(folder, **sections):
    return Watched(table(**sections), folder=str(folder)).run()


def totals(one):
    return one.engine.stages.ledger.own.total()


def test_a_user_s_access_mixes_as_it_says_and_leaves_totals_proven(folder):
    ours = watched(folder, radio={"access": {"kind": "my_access.py:Gossip", "kept": 0.25}})
    for decision in ours.decisions:
        links, weights = decision.channel.links, decision.weights.actual
        heard = np.bincount(links.rx, minlength=5)
        np.testing.assert_allclose(weights.link, 0.75 / heard[links.rx])
        np.testing.assert_allclose(weights.dense.sum(axis=1), 1.0)
    plain = watched(folder)
    assert np.array_equal(totals(ours), totals(plain))
    # what one receiver gets of a slot is not known: no link view
    assert [(one.view, one.status) for one in ours.engine.stages.ledger.statements()] == [("own", "proven")]
    assert not np.array_equal(ours.after_round[-1], plain.after_round[-1])


def test_no_gradient_is_sent_uncharged_whatever_a_user_s_weights_make_of_z(folder):
    power = {**OWN, "balance": False, "multiplier": "product"}
    ours = watched(folder, rounds=6, radio={"access": "my_access.py:Backwards"}, power=power)
    for decision in ours.decisions:
        assert (decision.multiplier >= 0).all()
        moved = decision.release.gamma * decision.release.multiplier != 0
        assert (decision.release.own_mu[moved & decision.on_air] > 0).all()


def test_a_node_that_came_back_takes_nothing_of_its_own_under_a_user_s_access(folder):
    """Its model was never sent: a share of it in s would be shown, and sent on, without a charge."""
    outages = {"kind": "schedule", "events": [{"node": 1, "at_s": 0.03, "for_s": 0.02}]}
    faults = {"crashes": outages, "rejoin": "listen"}
    clocked = {"policy": {"kind": "clocked", "period_s": 0.02}}
    ours = watched(folder, rounds=8, radio={"access": "my_access.py:Noisy"}, faults=faults, time=clocked)
    listened = [one for one in ours.decisions if one.participation.listening.any()]
    assert listened
    for decision in listened:
        (node,) = np.flatnonzero(decision.participation.listening)
        row = decision.weights.actual.dense[node]
        assert row[node] == 0.0
        assert row.sum() == pytest.approx(1.0)


def test_a_user_s_mechanism_is_charged_as_it_says_and_is_not_proven(folder, tmp_path):
    noise = {"noise": {"kind": "my_mechanism.py:Louder", "factor": 4.0}, "epsilon_max": 1.0}
    louder, plain = watched(folder, privacy=noise), watched(folder)
    for one, other in zip(louder.decisions[1:], plain.decisions[1:]):
        np.testing.assert_allclose(2.0 * one.release.own_mu, other.release.own_mu, rtol=1e-12)
    run = simulate(parse_scenario(table(privacy=noise), folder=str(folder)), out=tmp_path)
    assert set(run.privacy["status"]) == {"unproven"}
    assert "not proven" in run.summary["adversary"]
    assert any("not proven" in warning for warning in run.summary["warnings"])
    assert run.summary["epsilon_own_conditions"][0].startswith("not proven")


def test_a_user_s_update_steps_from_its_base_and_leaves_totals_proven(folder):
    ours = Watched(table(learning={"update": {"kind": "my_update.py:Extrapolated", "b": 0.5}}), folder=str(folder))
    learning, held, models, gradients = ours.world.learning, [], [], []
    before = learning.held.clone()
    inner = learning.round

    def round(given):
        result = inner(given)
        held.append(learning.held.clone())
        models.append(learning.x.clone())
        gradients.append((learning._gradient.clone(), given.update.step.copy()))
        return result

    learning.round = round
    ours.run()
    for s, x, (gradient, step) in zip(held, models, gradients):
        moved = s + 0.5 * (s - before)
        expected = moved - torch.from_numpy(step)[:, None] * gradient
        norm = torch.linalg.vector_norm(expected, dim=1, keepdim=True)
        expected = expected * (learning.radius / norm).clamp_max(1.0)
        torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-12)
        before = s
    plain = watched(folder)
    assert np.array_equal(totals(ours), totals(plain))
    assert not np.array_equal(ours.after_round[-1], plain.after_round[-1])


@pytest.mark.parametrize(
    ("section", "value", "words"),
    [
        ("radio", {"access": "my_access.py:Short"}, "Short.mix must return weight, own and noise"),
        ("radio", {"access": "my_access.py:Nan"}, "returned weight nan for link"),
        ("privacy", {"noise": "my_mechanism.py:Nothing", "epsilon_max": 1.0}, "returned NoneType, expected"),
        ("radio", {"access": "my_access.py:Counts"}, "Counts.mix remembers in self"),
        ("learning", {"update": "my_update.py:Counts"}, "Counts.base remembers in self"),
        ("learning", {"update": "my_update.py:Huge", "dtype": "float32"}, "returned a base that is not"),
        ("learning", {"update": "my_update.py:Forgets"}, "name all of it in initial(received)"),
    ],
)
def test_a_member_that_breaks_its_contract_is_named(folder, section, value, words):
    with pytest.raises(ContractError) as caught:
        watched(folder, **{section: value})
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("section", "value", "words"),
    [
        ("radio", {"access": "tdmaa"}, 'radio.access is "tdmaa"; no such access; did you mean tdma?'),
        ("privacy", {"noise": "pairs", "epsilon_max": 1.0}, 'privacy.noise is "pairs"; no such mechanism'),
        ("learning", {"update": "adam"}, 'learning.update is "adam"; no such update'),
    ],
)
def test_a_member_that_does_not_exist_is_one_line(section, value, words):
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(table(**{section: value}))
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_members_are_known_by_one_line_each():
    for family, members in families.MEMBERS.items():
        for name, path in members.items():
            module = families.member(family, name)
            assert module.__name__ == path
            assert hasattr(module, "Member")
            assert "To add one" in __import__(path.rpartition(".")[0], fromlist=["x"]).__doc__


@pytest.mark.parametrize(
    ("sources", "silent", "words"),
    [
        (["held"], False, "other than once"),
        (["w", "w"], False, "other than once"),
        (["held", "w"], False, "other than once"),
        (["w", "held"], True, "did not send w"),
    ],
)
def test_an_access_sends_w_once_and_then_only_what_its_senders_hold(sources, silent, words):
    engine = Watched(table(rounds=1)).engine
    carrier = engine.stages.carrier
    real = carrier.carry

    def carry(given):
        (step,) = real(given).steps
        if silent:
            given.on_air[0] = False
        return Carried(tuple(replace(step, source=source) for source in sources))

    carrier.carry = carry
    with pytest.raises(ContractError, match=words):
        engine.open_frame(1, 0, Participation.everyone(engine.stages.learning.nodes))
