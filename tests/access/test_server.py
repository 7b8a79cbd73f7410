"""A server: federated averaging, energy and airtime by hand, rounds in which it has failed, what is refused."""

import numpy as np
import pytest
import torch
from conftest import over, tiny
from interrupting import assert_resumes

import wirelessdl
from wirelessdl.channel.antennas import heard_through
from wirelessdl.cli.run import summary_rows
from wirelessdl.errors import ScenarioError
from wirelessdl.learning.announced import announced_rms
from wirelessdl.preview.plan import preview_plan
from wirelessdl.radio.frame import Participation
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.run.wiring import make_engine, run_rounds


def served(antennas=2, down=(), without="wait", **sections):
    """Six nodes around a server that hears all of them."""
    server = {"at": "center", "antennas": antennas, "height_m": 8.0, "down": list(down), "without": without}
    base = {
        "scenario": {"rounds": 4},
        "network": {"nodes": 6, "placement": {"kind": "disc", "radius_m": 60}, "server": server},
        "channel": {"models": [{"model": "log-distance"}, {"model": "rician", "k_db": 6.0}]},
        "radio": {"alignment": "server", "power_dbm": 23, "truncate_snr_db": 0, "subslots": 3, "thermal_noise": True},
        "power": {"objective": "own-noise"},
        "learning": {"sampling": "full", "dtype": "float64"},
    }
    return tiny(**over(base, sections))


class Seen:
    """A run: decisions, gradients with the points at which they were taken, and what nodes held after each round."""

    def __init__(self, scenario):
        self.world = build(scenario, device="cpu")
        self.learning = self.world.learning
        self.points, self.gradients, self.held, self.decisions = [], [], [], []
        inner = self.learning.strategy.gradient

        def gradient(worker, point, batch, out):
            found = inner(worker, point, batch, out)
            self.points[-1][list(batch.nodes)] = point
            self.gradients[-1][list(batch.nodes)] = out
            return found

        self.learning.strategy.gradient = gradient
        self._round, self.learning.round = self.learning.round, self._watched
        self.x = self.learning.x.clone()
        self.engine = make_engine(self.world)
        self.engine.trace.connect("learning.update", lambda event: self.decisions.append(event.decision))
        run_rounds(self.world, self.engine)

    def _watched(self, given):
        for rows in (self.points, self.gradients):
            rows.append(torch.zeros_like(self.x))
        result = self._round(given)
        self.held.append(self.learning.held.clone())
        return result


@pytest.mark.parametrize("antennas", [1, 5])
def test_without_noise_it_is_federated_averaging(antennas):
    """x_j <- s - gamma n g_j(s), s <- mean of all x_j, in plain loops over nodes."""
    still = {"models": [{"model": "log-distance"}]}
    seen = Seen(served(antennas, radio={"thermal_noise": False}, privacy={"epsilon_max": float("inf")}, channel=still))
    nodes, x = seen.world.nodes, [seen.x[node].double() for node in range(seen.world.nodes)]
    for number, decision in enumerate(seen.decisions):
        mean = torch.zeros_like(x[0])
        for node in range(nodes):
            mean += x[node] / nodes
        for node in range(nodes):
            torch.testing.assert_close(seen.held[number][node], mean, rtol=0, atol=1e-12)
            torch.testing.assert_close(seen.points[number][node], mean, rtol=0, atol=1e-12)
            x[node] = mean - decision.learning_rate * nodes * seen.gradients[number][node]
    assert decision.learning_rate * nodes * seen.gradients[-1].norm() > 1e-3  # models move


def test_energy_and_airtime_are_those_by_hand(tmp_path):
    """Pilots of all, what they announce, three sub-slots each way with four pilots more; 23 dBm, 1 MHz, 16 bits."""
    scenario = served(radio={"csi": {"kind": "pilots", "symbols": 4}, "guard_s": 1e-5}, scenario={"rounds": 1})
    run = simulate(scenario, out=tmp_path, device="cpu")
    symbols = -(-build(scenario, device="cpu").learning.learner.size // 2)
    payload_s, pilot_s, guard_s, number_s = 3 * -(-symbols // 3) / 1e6, 4e-6, 1e-5, 16 / 1e7
    announced_s = (6 * 2 + 2) * number_s  # two of each node; by what they scale, and the size of the mean
    collect_s = announced_s + guard_s + 3 * (pilot_s + 2 * guard_s) + payload_s
    back_s = 4 * pilot_s + payload_s
    row = wirelessdl.open_run(run.path).rounds.iloc[0]
    assert row["airtime_s"] == pytest.approx(6 * pilot_s + guard_s + collect_s + back_s + guard_s, abs=2e-8)
    power_w = 10 ** ((23 - 30) / 10)
    nominal = 6 * power_w * (pilot_s + payload_s + 2 * number_s)
    assert row["energy_nominal_j"] == pytest.approx(nominal, rel=1e-4)
    assert row["energy_j"] < nominal
    assert row["server_j"] == pytest.approx(power_w * (payload_s + 7 * pilot_s + 2 * number_s), rel=1e-6)
    assert row["server_members"] == 6
    words = dict(summary_rows(wirelessdl.open_run(run.path).summary))["server"]
    assert words.startswith("6 members per round; it sends ")


def test_receiver_noise_is_that_of_the_formula():
    """Collected at 1/eta over n, then sent back by its own size; 4 errors of a variance over so many coordinates."""
    still = {"models": [{"model": "log-distance"}]}
    scenario = served(1, radio={"power_dbm": -20, "truncate_snr_db": -40}, scenario={"rounds": 1}, channel=still)
    world = build(scenario, device="cpu")
    engine = make_engine(world)
    engine.open_frame(1, 0, Participation.everyone(6))
    collect, broadcast = engine._decision.carried.announced
    assert collect.rx.tolist() == [6] * 6
    assert collect.own[6] == 0
    count = 20_000
    rng = np.random.default_rng(0)
    held = torch.from_numpy(np.vstack([rng.normal(size=(6, count)) * rng.uniform(0.3, 3.0, (6, 1)), np.zeros(count)]))
    rho, mean = announced_rms(held)[:6].numpy(), held[:6].mean(dim=0)
    from wirelessdl.learning.announced import send_announced

    size = np.abs(engine._decision.channel.server.uplink[0])
    eta = np.min(size * np.sqrt(world.power_w) / rho)
    send_announced(collect, held, torch.from_numpy(rng.normal(size=(1, count))))
    tolerance = 4 * np.sqrt(2 / count)
    assert float((held[6] - mean).var()) == pytest.approx(world.thermal_w / (6 * eta) ** 2, rel=tolerance)
    at_server, sent_rms = held[6].clone(), float(announced_rms(held)[6])
    send_announced(broadcast, held, torch.from_numpy(rng.normal(size=(6, count))))
    down = engine._decision.channel.server.downlink
    for node in range(6):
        expected = world.thermal_w * sent_rms**2 / (10 ** (-7 / 10) * down[node] ** 2)
        assert float((held[node] - at_server).var()) == pytest.approx(expected, rel=tolerance)


def test_selection_by_snr_leaves_weak_nodes_at_home_and_their_number_is_the_multiplier():
    seen = Seen(served(1, radio={"truncate_snr_db": 32}))
    on_air = np.array([one.on_air for one in seen.decisions])
    assert 0 < on_air.sum() < on_air.size
    for number, one in enumerate(seen.decisions):
        sight = one.channel.server
        snr = seen.world.power_w * np.minimum(np.abs(sight.uplink[0]), sight.downlink) ** 2 / seen.world.thermal_w
        np.testing.assert_array_equal(one.on_air, snr >= 10**3.2)
        assert (one.multiplier[one.on_air] == one.on_air.sum()).all()
        known = one.weights.known.dense
        np.testing.assert_allclose(known[np.ix_(one.on_air, one.on_air)], 1.0 / max(1, one.on_air.sum()), atol=1e-12)
        if number:
            np.testing.assert_array_equal(seen.held[number][~one.on_air], seen.held[number - 1][~one.on_air])


def test_a_node_that_a_jammer_keeps_from_hearing_the_server_stays_at_home():
    """The server itself is not jammed."""
    jammer = {"kind": "transmitter", "power_dbm": -28.0, "x_m": 40.0, "y_m": 0.0, "height_m": 1.5}
    seen = Seen(served(1, radio={"truncate_snr_db": 20}, faults={"jammer": jammer}))
    for one in seen.decisions:
        sight, power_w = one.channel.server, seen.world.power_w  # the server's is the same
        down = sight.downlink**2 * power_w / (seen.world.thermal_w + one.channel.jammer_w)
        up = np.abs(sight.uplink[0]) ** 2 * power_w / seen.world.thermal_w
        np.testing.assert_array_equal(one.on_air, np.minimum(up, down) >= 100)
    assert ((up >= 100) & (down < 100)).any()
    assert one.on_air.any()


def test_a_server_at_a_nodes_antenna_is_one_line():
    network = {"nodes": 3, "placement": {"kind": "line", "spacing_m": 30, "height_m": 8.0}}
    with pytest.raises(ScenarioError, match=r"network\.server is where node 1 starts; .* set another height_m"):
        build(served(network={**network, "server": {"at": "center", "height_m": 8.0}}), device="cpu")


def test_more_antennas_collect_more_nodes():
    """Rayleigh fading of equal mean, at a threshold that one antenna reaches half of the time; 200 frames."""
    rng = np.random.default_rng(1)
    h = (rng.normal(size=(200, 8, 12)) + 1j * rng.normal(size=(200, 8, 12))) * np.sqrt(0.5)
    found = [np.mean([heard_through(one[:m], np.full(12, 81.0), 0.7) >= 0.7 for one in h]) for m in (1, 2, 4, 8)]
    assert found[0] == pytest.approx(np.exp(-0.7), abs=0.05)
    assert found[0] < found[2] < found[3]


DOWN = [[3, 12]]


def test_while_it_has_failed_nodes_wait():
    """Ten rounds in which nobody sends, steps or is charged; then the pending gradient goes out."""
    seen = Seen(served(down=DOWN, scenario={"rounds": 14}))
    for number, one in enumerate(seen.decisions, start=1):
        away = 3 <= number <= 12
        assert one.on_air.any() != away
        assert bool(one.release.own_mu.any()) == (not away and number > 1)
        if away:
            assert not one.carried.announced
            assert torch.equal(seen.held[number - 1], seen.held[1])
    assert seen.decisions[12].release.gamma == pytest.approx(seen.decisions[1].learning_rate)
    times = [one.opened_ns for one in seen.decisions]
    assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("without", ["wait", "hubs"])
def test_it_may_be_down_as_training_begins(without):
    paired = {"noise": "pairwise", "coalition": 1, "pair_ratio": "auto"}
    seen = Seen(served(down=[[1, 2]], without=without, privacy=paired))
    assert [bool(one.on_air.any()) for one in seen.decisions] == [without == "hubs"] * 2 + [True] * 2
    plan = preview_plan(build(seen.world.scenario, device="cpu"))
    assert plan.carry.words.startswith("down in the first round; ")
    assert plan.protection.roster.terms.ratio > 0


@pytest.mark.parametrize("antennas", [1, 2])
def test_while_it_has_failed_hubs_take_over(antennas):
    seen = Seen(served(down=DOWN, without="hubs", scenario={"rounds": 14}, radio={"antennas": antennas}))
    for number, one in enumerate(seen.decisions, start=1):
        assert one.on_air.all()
        hubs = one.carried.rounds.get("hubs", 0.0)
        assert (hubs > 0) == (3 <= number <= 12)
        assert ("server_members" in one.carried.rounds) != (hubs > 0)


def test_a_resumed_run_is_the_whole_run(tmp_path):
    scenario = served(
        down=[[3, 4]],
        without="hubs",
        scenario={"rounds": 6},
        radio={"csi": {"kind": "pilots", "symbols": 4}, "truncate_snr_db": 25},
    )
    assert_resumes(scenario, tmp_path, 3)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"radio": {"alignment": "hubs"}}, "network.server is given"),
        ({"radio": {"access": "tdma", "alignment": "all"}}, "network.server is given"),
        ({"radio": {"mixing_passes": 1}}, "radio.mixing_passes is 1"),
        ({"learning": {"closing_passes": 2}}, "learning.closing_passes is 2"),
        ({"power": {"multiplier": "nodes"}}, "power.multiplier is 'nodes'"),
        ({"network": {"server": "none"}}, "without a network.server"),
        ({"network": {"server": {"at": [1.0]}}}, "network.server"),
    ],
)
def test_what_does_not_go_together_is_refused(sections, words):
    with pytest.raises(ScenarioError, match=words):
        served(**sections)
