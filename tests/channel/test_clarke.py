"""Fading in time, keyed draws, and models chained in Python."""

import numpy as np
import pytest
import scipy
from scipy.special import j0

from wirelessdl import counter_rng
from wirelessdl.channel import Friis, Rayleigh, compose
from wirelessdl.channel.clarke import Clarke
from wirelessdl.links import Geometry, Instants, Links

FREQUENCY_HZ = 3e9
C = 299_792_458


def pairs(count, speed_tx=0.0, speed_rx=0.0):
    """Links 2n -> 2n + 1, side by side, each end with its own speed."""
    position = np.zeros((2 * count, 3))
    position[1::2, 0] = 50.0
    velocity = np.zeros_like(position)
    velocity[0::2, 1], velocity[1::2, 1] = speed_tx, speed_rx
    tx = 2 * np.arange(count)
    return Links(tx + 1, tx, Geometry(position, velocity))


def scatter(clarke, links, time_s, rng):
    """h of every link at one instant."""
    return clarke.scatters(Instants((links,), (time_s,)), lambda: rng)[0]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("speed_tx", "speed_rx"), [(10.0, 0.0), (10.0, 10.0), (15.0, 4.0)])
def test_autocorrelation_is_the_product_of_both_ends_bessel_functions(speed_tx, speed_rx):
    """Over 40,000 processes at three lags; real and imaginary part have a standard error below 1/sqrt(n)."""
    count = 40_000
    links = pairs(count, speed_tx, speed_rx)
    clarke = Clarke(FREQUENCY_HZ, paths=16, speed_mps=None, reciprocal=True)
    first = scatter(clarke, links, 0.0, rng(1))
    for lag_s in (0.001, 0.003, 0.007):
        later = scatter(clarke, links, lag_s, rng(2))
        expected = j0(2 * np.pi * speed_tx * FREQUENCY_HZ / C * lag_s) * j0(
            2 * np.pi * speed_rx * FREQUENCY_HZ / C * lag_s
        )
        product = np.mean(later * np.conj(first))
        assert abs(product - expected) < 5 / np.sqrt(count), lag_s


def test_power_is_one_over_processes_and_over_time():
    count, links = 40_000, pairs(40_000, 10.0, 10.0)
    clarke = Clarke(FREQUENCY_HZ, 16, None, True)
    power = np.abs(scatter(clarke, links, 0.0, rng(1))) ** 2
    variance = 1 - 1 / 16  # E|h|^4 = 2 - 1/N
    assert abs(power.mean() - 1) < 4 * np.sqrt(variance / count)
    fourth = np.mean(power**2)
    assert abs(fourth - (2 - 1 / 16)) < 4 * np.sqrt(20 / count)
    few = pairs(20, 10.0, 10.0)
    one = Clarke(FREQUENCY_HZ, 16, None, True)
    over_time = np.mean([np.abs(scatter(one, few, 0.01 * n, rng())) ** 2 for n in range(4000)], axis=0)
    np.testing.assert_allclose(over_time, 1.0, atol=0.15)  # about 4,000 / 2 independent instants


def test_power_forgets_as_the_square_of_the_amplitude():
    links = pairs(40_000, 10.0, 10.0)
    model = Rayleigh(FREQUENCY_HZ, process="clarke")
    first, lag_s = model.gain(links, 0.0, rng(1)) ** 2, 0.002
    later = model.gain(links, lag_s, rng(2)) ** 2
    found = np.mean((first - 1) * (later - 1)) / (1 - 1 / 16)
    rho = scipy.special.j0(2 * np.pi * 10.0 * FREQUENCY_HZ / C * lag_s) ** 2
    assert abs(found - rho**2) < 4 * 3 / np.sqrt(len(links))


def test_standing_ends_do_not_fade_and_a_given_speed_moves_them():
    links = pairs(10)
    still, moved = Rayleigh(FREQUENCY_HZ, process="clarke"), Rayleigh(FREQUENCY_HZ, process="clarke", speed_mps=3.0)
    np.testing.assert_array_equal(still.gain(links, 0.0, rng(1)), still.gain(links, 9.0, rng(2)))
    assert (moved.gain(links, 0.0, rng(1)) != moved.gain(links, 0.01, rng(2))).all()


def test_phases_keep_their_digits_after_a_day():
    """The same 2 ms step now and after a day at 1 kHz of Doppler: equal to 1e-4, which float32 phases lose."""
    speed = 1000 * C / FREQUENCY_HZ / 2
    links = pairs(50, speed, speed)
    early, late = (Clarke(FREQUENCY_HZ, 16, None, True) for _ in range(2))
    scatter(early, links, 0.0, rng(1))
    scatter(late, links, 0.0, rng(1))
    twin = _plain(late, links, 86_400.0)
    np.testing.assert_allclose(scatter(late, links, 86_400.0, rng(2)), twin, atol=1e-4)


def _plain(clarke, links, time_s):
    """Slow twin in exact fractions of a cycle, path by path."""
    cos_a, cos_b, start = clarke._rings
    cycles = np.linalg.norm(links.geometry.velocity_mps, axis=1) * time_s * FREQUENCY_HZ / C
    out = np.zeros(len(links), dtype=complex)
    for n in range(clarke.paths):
        for link, (tx, rx) in enumerate(zip(links.tx, links.rx)):
            turn = cos_a[n, link] * cycles[tx] + cos_b[n, link] * cycles[rx] + start[n, link]
            out[link] += np.exp(2j * np.pi * (turn % 1.0))
    return out / np.sqrt(clarke.paths)


def test_the_fast_sum_equals_plain_loops():
    links = pairs(30, 7.0, 3.0)
    clarke = Clarke(FREQUENCY_HZ, 8, None, True)
    scatter(clarke, links, 0.0, rng(1))
    for time_s in (0.0005, 0.02, 1.7):
        np.testing.assert_allclose(scatter(clarke, links, time_s, rng()), _plain(clarke, links, time_s), atol=2e-6)


def test_clarke_is_reciprocal_unless_asked_otherwise_and_belongs_to_pairs():
    position = rng(3).uniform(0, 100, (6, 3))
    everyone = Links.from_mask(np.ones((6, 6), bool), Geometry(position, np.ones((6, 3))))
    pruned = everyone.where((everyone.rx + everyone.tx) % 2 == 1)

    def asked(links, **given):
        model = Rayleigh(FREQUENCY_HZ, process="clarke", **given)
        model.gain(links, 0.0, rng(1))
        return links.matrix(model.gain(links, 0.5, rng(2)))

    np.testing.assert_array_equal(asked(everyone), asked(everyone).T)
    assert (asked(everyone, reciprocal=False) != asked(everyone, reciprocal=False).T).sum() == 30
    joined = asked(pruned) > 0
    np.testing.assert_array_equal(asked(pruned)[joined], asked(everyone)[joined])


def test_what_does_not_go_together_says_so():
    with pytest.raises(ValueError, match='speed_mps is 3; goes with process = "clarke"'):
        Rayleigh(speed_mps=3.0)
    with pytest.raises(ValueError, match='coherence_s goes with process = "block"'):
        Rayleigh(process="clarke", coherence_s=0.1)


# --- keyed draws


def test_keyed_numbers_are_uniform_and_unrelated_between_neighbours():
    level = counter_rng.uniform(12345, np.arange(100_000), 2)
    count = level.shape[1]
    for lane in level:
        assert abs(lane.mean() - 0.5) < 4 / np.sqrt(12 * count)
        assert abs(np.corrcoef(lane[:-1], lane[1:])[0, 1]) < 4 / np.sqrt(count)
        share = np.histogram(lane, 100, (0, 1))[0]
        chi = np.sum((share - count / 100) ** 2) / (count / 100)
        assert abs(chi - 99) < 5 * np.sqrt(2 * 99)
    assert abs(np.corrcoef(*level)[0, 1]) < 4 / np.sqrt(count)
    other = counter_rng.uniform(12346, np.arange(100_000))[0]
    assert abs(np.corrcoef(level[0], other)[0, 1]) < 4 / np.sqrt(count)


def test_keyed_normals_have_their_moments():
    value = counter_rng.normal(7, np.arange(200_000))
    assert abs(value.mean()) < 4 / np.sqrt(len(value))
    assert abs(value.var() - 1) < 4 * np.sqrt(2 / len(value))
    assert abs(np.mean(value**4) - 3) < 4 * np.sqrt(96 / len(value))


# --- a >> b


class Mine:
    def gain(self, links, time_s, rng):
        return np.full(len(links), 0.5)


def test_models_chain_with_arrows_whoever_wrote_them():
    links = pairs(5)
    chain = Mine() >> Friis(FREQUENCY_HZ) >> Rayleigh()
    assert [type(model).__name__ for model in chain] == ["Mine", "Friis", "Rayleigh"]
    friis = Friis(FREQUENCY_HZ)
    np.testing.assert_allclose(
        chain.gain(links, 0.0, rng(1)),
        0.5 * friis.gain(links, 0.0, rng()) * compose(Rayleigh()).gain(links, 0.0, rng(1)),
    )
    np.testing.assert_allclose(chain.loss_db(links), friis.loss_db(links))


# --- the worked examples in channel_models/


def crossing_links():
    """Two nodes either side of the bus lane at x = 0, two far to the left of it."""
    position = np.array([[0.0, -20.0, 1.5], [0.0, 20.0, 1.5], [-50.0, -20.0, 1.5], [-50.0, 20.0, 1.5]])
    return Links.from_mask(np.ones((4, 4), bool), Geometry.at_rest(position))


def worked_example(name):
    import importlib.util

    from wirelessdl.scenario.loader import share_folder

    spec = importlib.util.spec_from_file_location(name, share_folder() / "channel_models" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bus_shadows_the_links_it_passes_and_no_others():
    model, links = worked_example("crossing").Crossing(5.9e9, speed_mps=8.0, reach_m=60.0), crossing_links()
    near = np.flatnonzero((links.tx == 0) & (links.rx == 1))[0]
    far = np.flatnonzero((links.tx == 2) & (links.rx == 3))[0]
    hit = next(t for t in np.arange(0, 30, 0.01) if abs(model.bus(t)[0]) < 0.05)
    away = next(t for t in np.arange(0, 30, 0.01) if model.bus(t)[0] > 59)
    shadow_db = 20 * np.log10(model.gain(links, away, None) / model.gain(links, hit, None))
    assert shadow_db[near] == pytest.approx(20.0, abs=0.01)
    assert shadow_db[far] == pytest.approx(0.0, abs=0.01)
    assert abs(model.bus(hit + 0.5)[0] - model.bus(hit)[0]) == pytest.approx(4.0)


def test_the_machine_fades_with_every_turn_and_has_unit_power():
    machine = worked_example("factory").RotatingMachine
    rows = rng(4).uniform(-20, 20, (40, 3))
    links = Links.from_mask(np.ones((40, 40), bool), Geometry.at_rest(rows))
    model = machine(turns_per_s=5.0)
    first = model.gain(links, 0.0, rng(1))
    np.testing.assert_allclose(model.gain(links, 0.2, rng(2)), first, rtol=1e-9)
    assert (np.abs(model.gain(links, 0.07, rng(3)) - first) > 1e-6).all()
    np.testing.assert_array_equal(links.matrix(first), links.matrix(first).T)
    over_a_turn = np.mean([model.gain(links, t, rng()) ** 2 for t in np.arange(64) / 64 / 5], axis=0)
    np.testing.assert_allclose(over_a_turn, 1.0, rtol=1e-9)
