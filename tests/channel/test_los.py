"""Line of sight, a vehicle in the way, or a building: three states; and state that follows places."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from wirelessdl.channel.field import Field
from wirelessdl.channel.los import LOS, NLOS, NLOSV, ChannelCondition
from wirelessdl.channel.pathloss.formulas import LOS_PROBABILITY, vehicle_loss_db
from wirelessdl.channel.pathloss.standard import SidelinkUrban, UmiStreetCanyon
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.links import Geometry, Links
from wirelessdl.network.streets import Manhattan
from wirelessdl.streams import Streams

NS3 = json.loads((Path(__file__).parent.parent / "reference" / "vehicles_ns3.json").read_text())


def side_by_side(distance_m, heights=(1.5, 1.5), count=20_000):
    """Links 2n -> 2n + 1 of one length, a long way from each other."""
    position = np.zeros((2 * count, 3))
    position[:, 0] = np.repeat(np.arange(count) * 1e4, 2)
    position[1::2, 0] += distance_m
    position[0::2, 2], position[1::2, 2] = heights
    tx = 2 * np.arange(count)
    return Links(tx + 1, tx, Geometry.at_rest(position))


@pytest.mark.parametrize("row", NS3["shares"], ids=lambda row: f"{row['model']}-{row['distance_2d_m']:g}m")
@pytest.mark.parametrize("spatial", [False, True])
def test_shares_of_the_states_agree_with_ns3(row, spatial):
    """Within 4 standard errors of both sides' samples; a probability never makes a corner."""
    links = side_by_side(row["distance_2d_m"], (1.6, 1.6), 4000)
    state = ChannelCondition("auto", row["model"], Streams(3), spatial=spatial).state(links)
    for which, share in ((LOS, row["los"]), (NLOSV, row["nlosv"]), (NLOS, row["nlos"])):
        error = np.sqrt(max(share * (1 - share), 1e-4) * (1 / len(links) + 1 / NS3["samples"]))
        assert abs(np.mean(state == which) - share) < 4 * error


@pytest.mark.parametrize(
    "row", NS3["added"], ids=lambda r: f"{r['model']}-{r['distance_2d_m']:g}m-{r['rx_height_m']}-{r['tall_vehicles']}"
)
def test_what_a_vehicle_costs_agrees_with_ns3(row):
    """Mean and deviation before the cut at 0: ns-3 draws a log-normal variable of that mean and deviation instead."""
    lower, higher = sorted((row["tx_height_m"], row["rx_height_m"]))
    distance = np.hypot(row["distance_2d_m"], higher - lower)
    mean, square = 0.0, 0.0
    for roof, share in ((1.6, 1 - row["tall_vehicles"]), (3.0, row["tall_vehicles"])):
        middle, further = (
            float(vehicle_loss_db(*(np.array(v) for v in (distance, lower, higher, roof, level)))) for level in (0, 1)
        )
        mean, square = mean + share * middle, square + share * (middle**2 + (further - middle) ** 2)
    deviation = np.sqrt(square - mean**2)
    assert row["added_mean_db"] == pytest.approx(mean, abs=4 * deviation / np.sqrt(NS3["samples"]) + 1e-9)
    assert row["added_deviation_db"] == pytest.approx(deviation, rel=0.04)


@pytest.mark.parametrize(
    ("tall", "mean", "deviation", "above_20_db"), [(0.0, 5.0, 4.0, 0.0101), (1.0, 9.0, 4.5, 0.0270)]
)
def test_what_a_vehicle_costs_is_normal_cut_at_zero_or_log_normal_as_in_ns3(tall, mean, deviation, above_20_db):
    """ns-3: a log-normal variable with Mu = ln(m^2 / sqrt(s^2 + m^2)) and Sigma = sqrt(ln(s^2 / m^2 + 1))."""
    links = side_by_side(60.0, (1.6, 1.6))
    rule = {name: ChannelCondition(name, "sidelink-urban", Streams(5)) for name in ("los", "nlosv")}
    los_db = SidelinkUrban(3.5e9, rule["los"]).loss_db(links)
    usual, long_tailed = (
        SidelinkUrban(3.5e9, rule["nlosv"], tall_vehicles=tall, vehicle_law=law).loss_db(links) - los_db
        for law in ("normal", "log-normal")
    )
    assert usual.min() > -1e-9
    level = mean / deviation
    expected = mean * ndtr(level) + deviation * np.exp(-(level**2) / 2) / np.sqrt(2 * np.pi)
    assert usual.mean() == pytest.approx(expected, abs=4 * deviation / np.sqrt(len(links)))
    assert np.mean(usual < 1e-9) == pytest.approx(ndtr(-level), abs=0.01)
    law = stats.lognorm(s=np.sqrt(np.log(deviation**2 / mean**2 + 1)), scale=mean**2 / np.sqrt(deviation**2 + mean**2))
    assert long_tailed.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(len(links)))
    assert stats.kstest(long_tailed, law.cdf).pvalue > 1e-3
    assert law.sf(20) == pytest.approx(above_20_db, abs=1e-4)  # what docs/channels.md says
    # of the same draws
    assert (np.argsort(long_tailed) == np.argsort(usual, kind="stable"))[np.sort(usual) > 1e-9].all()
    assert stats.kstest(usual, law.cdf).pvalue < 1e-9


def test_buildings_decide_what_is_around_a_corner():
    streets = Manhattan()
    ends = np.array([[-120.0, -120.0, 1.5], [100.0, -120.0, 1.5], [-120.0, 110.0, 1.5], [125.0, 118.0, 1.5]])
    links = Links.from_mask(np.ones((4, 4), bool), Geometry.at_rest(ends))
    state = ChannelCondition("auto", "sidelink-urban", Streams(2), streets).state(links)
    around = streets.obstructed(links)
    assert 0 < around.sum() < len(around)
    assert np.array_equal(state == NLOS, around)
    # a base-station model has no vehicles: what no building hides is in sight, however far
    cellular = ChannelCondition("auto", "umi-street-canyon", Streams(2), streets)
    assert np.array_equal(cellular.los(links), ~around)
    assert np.array_equal(ChannelCondition("auto", "", Streams(2), streets).los(links), ~around)


def test_a_vehicle_shadows_like_a_line_of_sight():
    links = side_by_side(80.0)
    for rule, deviation in (("los", 3.0), ("nlosv", 3.0), ("nlos", 4.0)):
        condition = ChannelCondition(rule, "sidelink-urban", Streams(1))
        gain = Shadowing(condition).gain(links, 0.0, np.random.default_rng(0))
        assert np.std(20 * np.log10(gain)) == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize(("rule", "reach_m"), [("los", 10.0), ("nlosv", 13.0), ("nlos", 13.0)])
def test_shadowing_behind_a_vehicle_is_correlated_as_around_a_corner(rule, reach_m):
    """TR 37.885 table 6.2.3-1: 10 m with a line of sight, 13 m without, whatever is in the way."""
    here, shadowing = side_by_side(80.0), Shadowing(ChannelCondition(rule, "sidelink-urban", Streams(1)))
    there = here.at(
        Geometry.at_rest(here.geometry.position_m + np.where(np.arange(40_000) % 2, 5.0, 0.0)[:, None] * [0, 1, 0])
    )
    level = [np.log(shadowing.gain(links, 0.0, np.random.default_rng(n))) for n, links in enumerate((here, there))]
    # 4 standard errors of a correlation of 20,000 pairs: 0.01
    assert np.corrcoef(level)[0, 1] == pytest.approx(np.exp(-5.0 / reach_m), abs=0.012)


def apart(first, second):
    """Links from each place of `first` to the same row of `second`, [n, 2] m each."""
    position = np.full((2 * len(first), 3), 1.5)
    position[0::2, :2], position[1::2, :2] = first, second
    tx = 2 * np.arange(len(first))
    return Links(tx + 1, tx, Geometry.at_rest(position))


@pytest.mark.parametrize("moves", [(1, 0), (0, 1), (1, 1)], ids=["sender", "receiver", "both"])
def test_the_field_forgets_along_the_motion_of_either_end(moves):
    steps, reach = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 30.0]), 10.0
    heading = np.column_stack([np.zeros_like(steps), steps])
    links = apart(moves[0] * heading, [80.0, -30.0] + moves[1] * heading)
    level = np.array([Field(word).pairs(links, reach) for word in range(3000)])
    measured = np.corrcoef(level.T)[0]
    assert np.abs(measured - np.exp(-steps * sum(moves) / reach)).max() < 0.05
    assert level.mean() == pytest.approx(0, abs=0.05)
    assert level.std() == pytest.approx(1, abs=0.03)


def test_one_field_alone_has_about_the_correlation_of_all():
    rng = np.random.default_rng(0)
    first, second = rng.uniform(0, 3000, (2, 4000, 2))
    for word in range(8):
        field = Field(word)
        here, there = (field.pairs(apart(first, second + np.array([step, 0])), 10.0) for step in (0.0, 3.0))
        assert np.corrcoef(here, there)[0, 1] == pytest.approx(np.exp(-0.3), abs=0.1)


def test_the_field_depends_on_places_alone():
    rng = np.random.default_rng(1)
    position = np.column_stack([rng.uniform(0, 200, (9, 2)), np.full(9, 1.5)])
    links = Links.from_mask(np.ones((9, 9), bool), Geometry.at_rest(position))
    level = links.matrix(Field(4).pairs(links, 10.0)[links.pairs.of_link])
    assert np.array_equal(level, level.T)
    order = rng.permutation(9)
    turned = Links.from_mask(np.ones((9, 9), bool), Geometry.at_rest(position[order]))
    other = turned.matrix(Field(4).pairs(turned, 10.0)[turned.pairs.of_link])
    assert np.allclose(other, level[np.ix_(order, order)], atol=1e-12)
    few = links.where((links.rx < 2) & (links.tx == 8))
    assert np.allclose(Field(4).pairs(few, 10.0), level[:2, 8], atol=1e-12)


def test_shadowing_and_sight_of_neighbours_agree_where_space_is_consistent():
    """Far ends one metre apart: 0.9 correlation of shadowing, and almost always the same condition."""
    rng = np.random.default_rng(2)
    first, second = rng.uniform(0, 5000, (2, 3000, 2))
    second = first + (second - first) / np.linalg.norm(second - first, axis=1, keepdims=True) * 60.0
    together = apart(np.concatenate([first, first]), np.concatenate([second, second + np.array([1.0, 0.0])]))
    condition = ChannelCondition("auto", "umi-street-canyon", Streams(0), spatial=True)
    los = condition.los(together).reshape(2, -1)
    assert np.mean(los[0] == los[1]) > 0.85
    assert los[0].mean() == pytest.approx(float(LOS_PROBABILITY["umi-street-canyon"](np.array(60.0))), abs=0.06)
    level = 20 * np.log10(Shadowing(condition, sigma_db=4.0, correlation_m=13.0).gain(together, 0.0, rng)).reshape(
        2, -1
    )
    assert np.corrcoef(level)[0, 1] == pytest.approx(np.exp(-1 / 13), abs=0.05)
    alone = ChannelCondition("auto", "umi-street-canyon", Streams(0))
    independent = 20 * np.log10(Shadowing(alone, sigma_db=4.0).gain(together, 0.0, rng)).reshape(2, -1)
    assert abs(np.corrcoef(independent)[0, 1]) < 0.1


def test_the_kind_of_vehicle_follows_places_where_space_is_consistent():
    """Far ends half a metre apart have the same vehicle in the way; the share of tall ones stays as asked for."""
    rng = np.random.default_rng(4)
    first, second = rng.uniform(0, 5000, (2, 3000, 2))
    together = apart(np.concatenate([first, first]), np.concatenate([second, second + np.array([0.5, 0.0])]))
    tall = {
        spatial: (ChannelCondition("nlosv", "sidelink-urban", Streams(1), spatial=spatial).vehicle_unit(together) < 0.3)
        for spatial in (True, False)
    }
    same = {spatial: np.mean(np.equal(*kind.reshape(2, -1))) for spatial, kind in tall.items()}
    assert same[True] > 0.97
    assert same[False] == pytest.approx(0.3**2 + 0.7**2, abs=0.05)
    # one field's share deviates: the same 64 waves make all of it
    assert tall[True].mean() == pytest.approx(0.3, abs=0.06)


def test_a_static_network_keeps_its_state_and_a_walk_there_and_back_finds_it_again():
    condition = ChannelCondition("auto", "umi-street-canyon", Streams(6), spatial=True)
    shadowing, loss = Shadowing(condition), UmiStreetCanyon(3.5e9, condition, enforce_range=False)
    here, there = apart([[0.0, 0.0]] * 3, [[50.0, 0], [60.0, 10], [90, 5]]), apart([[0.0, 9.0]] * 3, [[80.0, 0]] * 3)
    seen = [loss.loss_db(links) - 20 * np.log10(shadowing.gain(links, 0.0, None if n else np.random.default_rng(1)))
            for n, links in enumerate((here, there, here))]  # fmt: skip
    assert np.array_equal(seen[0], seen[2])
    assert not np.allclose(seen[0], seen[1])


@pytest.mark.parametrize(
    ("channel", "network", "words"),
    [
        ('condition = "nlosv"\nmodels = [{ model = "friis" }]', "", "only sidelink models know vehicles"),
        ('condition = "los"\nmodels = [{ model = "friis" }]', 'map = "manhattan"\nplacement = "streets"',
         "the map decides"),
        ('models = [{ model = "sidelink-urban", tall_vehicles = 2 }]', "", "tall_vehicles is 2"),
        ('models = [{ model = "sidelink-urban", vehicle_law = "gauss" }]', "", "vehicle_law is 'gauss'"),
    ],
)  # fmt: skip
def test_conditions_that_contradict_are_one_line(wirelessdl_command, tmp_path, channel, network, words):
    file = tmp_path / "air.toml"
    file.write_text(
        f'[scenario]\nname = "air"\nrounds = 1\n[network]\nnodes = 4\n{network}\n[channel]\n{channel}\n'
        "[learning]\n[privacy]\nepsilon_max = 1\n"
    )
    answer = wirelessdl_command("check", str(file))
    assert answer.code == 2
    assert words in answer.err


def test_the_line_of_sight_does_not_chatter():
    """Flips on a walk of 200 m depend on the way, not on how often one looks."""
    links_of = {}
    for step in (1.0, 0.05):
        at = np.arange(0.0, 200.0, step)
        condition = ChannelCondition("auto", "sidelink-urban", Streams(4), spatial=True)
        flips = 0
        for offset in range(12):
            walk = apart(np.column_stack([at, np.full_like(at, 300.0 * offset)]),
                         np.column_stack([at, np.full_like(at, 300.0 * offset + 60.0)]))  # fmt: skip
            flips += int(np.count_nonzero(np.diff(condition.los(walk).astype(int))))
        links_of[step] = flips
    assert links_of[1.0] > 20
    assert links_of[0.05] < 1.3 * links_of[1.0]


def test_the_smooth_field_has_its_correlation():
    steps, reach = np.array([0.0, 2.0, 5.0, 10.0, 20.0]), 10.0
    links = apart(np.column_stack([steps, np.zeros_like(steps)]), np.tile([80.0, -30.0], (len(steps), 1)))
    level = np.array([Field(word, smooth=True).pairs(links, reach) for word in range(3000)])
    assert np.abs(np.corrcoef(level.T)[0] - np.exp(-((steps / reach) ** 2) / 2)).max() < 0.05
    assert level.std() == pytest.approx(1, abs=0.03)
