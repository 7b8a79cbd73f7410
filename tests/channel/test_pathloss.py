"""Every closed form of path loss against ns-3, and the ranges they hold in."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny

import wirelessdl
from wirelessdl.channel import los_probability, path_loss_db
from wirelessdl.channel.pathloss.formulas import CELLULAR, SIDELINK
from wirelessdl.channel.pathloss.lookup import NAMES

REFERENCE = json.loads((Path(__file__).parent.parent / "reference" / "pathloss_ns3.json").read_text())
MODELS = sorted({row["model"] for row in REFERENCE})


@pytest.mark.parametrize("model", MODELS)
def test_losses_agree_with_ns3_to_a_hundredth_of_a_decibel(model):
    rows = [row for row in REFERENCE if row["model"] == model]
    for row in rows:
        arguments = {key: value for key, value in row.items() if key not in ("model", "loss_db", "distance_2d_m")}
        found = path_loss_db(model, row["distance_2d_m"], **arguments)
        expected = np.inf if model == "range" and row["loss_db"] == 1000 else row["loss_db"]  # ns-3's "nothing"
        assert found == pytest.approx(expected, rel=0, abs=0.01), row
    assert len(rows) >= 2


def test_every_closed_form_has_rows_of_ns3():
    assert sorted(NAMES) == MODELS
    for model in (*CELLULAR, *SIDELINK):
        assert {row["condition"] for row in REFERENCE if row["model"] == model} == {"los", "nlos"}, model


def test_scalars_stay_scalars_and_arrays_arrays():
    ends = {"frequency_hz": 2.4e9, "tx_height_m": 1.5, "rx_height_m": 1.5}
    for name in ("friis", "log-distance", "two-ray", "sidelink-urban"):
        one = path_loss_db(name, 40.0, **ends)
        assert isinstance(one, float)
        many = path_loss_db(name, np.array([[40.0, 50.0]]), **ends)
        assert many.shape == (1, 2)
        assert many[0, 0] == one
    assert isinstance(los_probability("uma", 50.0), float)
    assert los_probability("uma", np.array([5.0, 500.0])).shape == (2,)


@pytest.mark.parametrize(
    "name", ["umi-street-canyon", "uma", "inh-office", "rma", "sidelink-urban", "sidelink-highway"]
)
def test_line_of_sight_fades_from_one_and_blocking_never_helps(name):
    distance = np.linspace(10.0, 140.0, 200)
    probability = los_probability(name, distance)
    assert los_probability(name, 0.0) == 1.0
    assert ((probability >= 0) & (probability <= 1)).all()
    assert (np.diff(probability) <= 1e-12).all()
    ends = {"frequency_hz": 3.5e9, "tx_height_m": 3.0, "rx_height_m": 1.5} if name != "rma" else {
        "frequency_hz": 0.7e9, "tx_height_m": 35.0, "rx_height_m": 1.5}  # fmt: skip
    clear, blocked = (path_loss_db(name, distance, condition=c, **ends) for c in ("los", "nlos"))
    assert (blocked >= clear - 1e-9).all() or name.startswith("sidelink")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("umi-street-canyon", {"distance_2d_m": 5.0}, "distance_2d_m is 5; umi-street-canyon holds from 10 to 5000"),
        ("rma", {"tx_height_m": 2.0}, "the higher antenna is 2; rma holds from 10 to 150"),
        ("inh-office", {"frequency_hz": 1e8, "tx_height_m": 3.0}, "frequency_hz is 1e"),
        ("friis", {"frequency_hz": 0.0}, "frequency_hz is 0.0; must be > 0"),
        ("two-ray", {"rx_height_m": 0.0}, "rx_height_m is 0; must be a finite length > 0"),
        ("umii", {}, "no loss model 'umii'"),
        ("friis", {"condition": "fog"}, 'condition is \'fog\'; must be "los" or "nlos"'),
    ],
)
def test_what_makes_no_sense_is_said(name, changes, words):
    arguments = {"distance_2d_m": 100.0, "frequency_hz": 3.5e9, "tx_height_m": 10.0, "rx_height_m": 1.5, **changes}
    with pytest.raises(ValueError) as caught:
        path_loss_db(name, arguments.pop("distance_2d_m"), **arguments)
    assert words in str(caught.value)


def test_new_losses_run_in_scenarios(tmp_path):
    matrix = [[0.0, 60.0, 62.0], [61.0, 0.0, 63.0], [64.0, 65.0, 0.0]]
    for model in (
        {"model": "two-ray"},
        {"model": "three-log-distance"},
        {"model": "range", "range_m": 1000.0},
        {"model": "matrix", "loss_db": matrix},
    ):
        run = wirelessdl.simulate(tiny(network={"nodes": 3}, channel={"models": [model]}), out=tmp_path)
        assert (run.links["gain"] > 0).all()
    by_pair = run.links.query("round == 1").set_index(["rx", "tx"])["gain"]
    assert by_pair[1, 2] == pytest.approx(10 ** (-63.0 / 20))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_user_above_its_street_canyon_base_stays_the_user(swapped):
    """TR 38.901: base at 10 m, user at 22.5 m, 22.4 + 35.3 lg d + 21.3 lg f - 0.3 (hUT - 1.5) without sight."""
    heights = (22.5, 10.0) if swapped else (10.0, 22.5)
    names = dict(zip(("tx_height_m", "rx_height_m"), heights))
    found = path_loss_db("umi-street-canyon", 200.0, frequency_hz=3.5e9, condition="nlos", **names)
    d = np.hypot(200.0, 12.5)
    expected = 22.4 + 35.3 * np.log10(d) + 21.3 * np.log10(3.5) - 0.3 * (22.5 - 1.5)
    assert found == pytest.approx(expected, abs=1e-9)
    street = path_loss_db(
        "umi-street-canyon", 200.0, frequency_hz=3.5e9, condition="nlos", tx_height_m=10, rx_height_m=9
    )
    assert street == pytest.approx(
        22.4 + 35.3 * np.log10(np.hypot(200, 1)) + 21.3 * np.log10(3.5) - 0.3 * 7.5, abs=1e-9
    )
