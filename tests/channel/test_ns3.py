"""ns-3's loss models, live, against our closed forms; skipped where ns-3 is not installed."""

import copy
import importlib.util
import time

import numpy as np
import pytest
from in_process import quick_table
from interrupting import assert_resumes

import wirelessdl
from wirelessdl.channel import (
    ChannelCondition,
    Friis,
    LogDistance,
    Ns3,
    SidelinkUrban,
    ThreeLogDistance,
    TwoRay,
    Uma,
    UmiStreetCanyon,
)
from wirelessdl.links import Geometry, Links
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.streams import Streams

F_HZ = 3.5e9
needs_package = pytest.mark.skipif(
    importlib.util.find_spec("ns") is None, reason="ns-3 is not installed: pip install ns3"
)


def every(heights_m, spread_m=400.0, nodes=20):
    rng = np.random.default_rng(3)
    place = np.column_stack([rng.uniform(0, spread_m, (nodes, 2)), rng.choice(heights_m, nodes)])
    return Links.from_mask(~np.eye(nodes, dtype=bool), Geometry.at_rest(place))


def state(rule, name):
    return ChannelCondition(rule, name, Streams(1))


def line_of_sight(loss, frequency_hz=F_HZ, rule="AlwaysLos"):
    plain = {"ShadowingEnabled": False}
    return Ns3(frequency_hz, loss, channel_condition=f"{rule}ChannelConditionModel", attributes=plain)


@needs_package
def test_losses_are_our_closed_forms_where_both_exist():
    reference_db = 20 * np.log10(4 * np.pi * F_HZ / 299_792_458.0)
    street, mast = every([1.5, 10.0]), every([1.5])
    fixed = [25.0 if node == 0 else 1.5 for node in range(mast.nodes)]
    mast = mast.at(Geometry.at_rest(np.column_stack([mast.geometry.position_m[:, :2], fixed])))
    mast = mast.where(mast.rx == 0)  # ns-3 3.44 takes the sender for the terminal where there is no line of sight
    umi_name = "umi-street-canyon"
    umi, uma = "ThreeGppUmiStreetCanyonPropagationLossModel", "ThreeGppUmaPropagationLossModel"
    pairs = [
        (Ns3(F_HZ, "FriisPropagationLossModel"), Friis(F_HZ), street),
        (Ns3(F_HZ, "TwoRayGroundPropagationLossModel"), TwoRay(F_HZ), street),
        (
            Ns3(F_HZ, "LogDistancePropagationLossModel", attributes={"Exponent": 3.2, "ReferenceLoss": reference_db}),
            LogDistance(F_HZ, exponent=3.2),
            street,
        ),
        (
            Ns3(F_HZ, "ThreeLogDistancePropagationLossModel"),
            ThreeLogDistance(),
            street,
        ),
        (line_of_sight(umi), UmiStreetCanyon(F_HZ, condition=state("los", umi_name)), mast),
        (
            line_of_sight(umi, rule="NeverLos"),
            UmiStreetCanyon(F_HZ, condition=state("nlos", "umi-street-canyon")),
            mast,
        ),
        (line_of_sight(uma), Uma(F_HZ, condition=state("los", "uma")), mast),
        (
            line_of_sight("ThreeGppV2vUrbanPropagationLossModel", 5.9e9),
            SidelinkUrban(5.9e9, condition=state("los", "sidelink-urban")),
            every([1.5]),
        ),
    ]
    for live, closed, links in pairs:
        far = links.where(links.distance_m > 10.0)
        assert live.loss_db(far) == pytest.approx(closed.loss_db(far), abs=0.01), live.loss


@needs_package
def test_draws_follow_the_run_s_seed_and_a_copy_makes_its_own():
    links, loss = every([1.5]), "ThreeGppV2vUrbanPropagationLossModel"
    model = Ns3(5.9e9, loss, channel_condition="ProbabilisticV2vUrbanChannelConditionModel")
    drawn = [copy.deepcopy(model).gain(links, 0.0, np.random.default_rng(seed)) for seed in (5, 5, 6)]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()
    began = time.perf_counter()
    model.loss_db(links)
    assert time.perf_counter() - began < 0.1  # 380 links in one call of C++


@needs_package
def test_a_run_resumes_bit_for_bit(tmp_path):
    channel = {
        "models": [
            {
                "model": "ns3",
                "loss": "ThreeGppV2vUrbanPropagationLossModel",
                "channel_condition": "ProbabilisticV2vUrbanChannelConditionModel",
            }
        ],
        "frequency_hz": 5.9e9,
    }
    network = {"mobility": {"kind": "random-waypoint", "speed_mps": 20.0, "area_m": [200.0, 200.0]}}
    given = parse_scenario(quick_table(network=network, channel=channel, scenario={"rounds": 12}))
    assert_resumes(given, tmp_path, 7)


@needs_package
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"loss": "FriisPropagationLossMode"},
            r"no such PropagationLossModel; did you mean FriisPropagationLossModel\?",
        ),
        ({"channel_condition": "AlwaysLosChannelConditionModel"}, "FriisPropagationLossModel takes none"),
        ({"channel_condition": "Sometimes"}, "no such ChannelConditionModel"),
        ({"attributes": {"Freq": 1}}, "FriisPropagationLossModel has no such attribute"),
        ({"attributes": {"SystemLoss": "much"}}, "attributes.SystemLoss is 'much'; .* takes a DoubleValue there"),
    ],
)
def test_mistakes_are_one_line(keys, words):
    table = quick_table(channel={"models": [{"model": "ns3", "loss": "FriisPropagationLossModel", **keys}]})
    with pytest.raises(wirelessdl.ScenarioError, match=r"channel\.models\[0\]\." + ".*" + words):
        wirelessdl.simulate(parse_scenario(table), out=None)


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(ValueError, match=r"ns3 needs a package that is not installed: pip install wirelessdl\[ns3\]"):
        Ns3(F_HZ, "FriisPropagationLossModel")
