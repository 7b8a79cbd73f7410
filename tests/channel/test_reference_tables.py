"""TR 38.901 and TR 37.885 tables against Sionna and ns-3: loss, line of sight, shadowing."""

import json
from pathlib import Path

import numpy as np
import pytest

from wirelessdl.channel import los_probability, path_loss_db
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.pathloss.formulas import CELLULAR, LOS_PROBABILITY
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.links import Geometry, Links
from wirelessdl.streams import Streams

FOLDER = Path(__file__).parent.parent / "reference"
SIONNA, NS3 = (json.loads((FOLDER / name).read_text()) for name in ("pathloss_sionna.json", "condition_ns3.json"))


def of(rows, model):
    found = [row for row in rows if row["model"] == model]
    assert len(found) >= 4, f"{model} has {len(found)} rows"
    return found


@pytest.mark.parametrize("condition", ["los", "nlos"])
@pytest.mark.parametrize("model", sorted(CELLULAR))
def test_losses_agree_with_sionna(model, condition):
    """To 1e-6 dB: both compute in double precision with the same speed of light."""
    rows = [row for row in of(SIONNA["loss"], model) if row["condition"] == condition]
    assert len(rows) >= 40
    for row in rows:
        arguments = {key: value for key, value in row.items() if key not in ("model", "loss_db", "distance_2d_m")}
        found = path_loss_db(model, row["distance_2d_m"], **arguments)
        assert found == pytest.approx(row["loss_db"], rel=0, abs=1e-6), row


@pytest.mark.parametrize(
    ("source", "model"),
    [("sionna", model) for model in sorted(CELLULAR)] + [("ns-3", model) for model in sorted(LOS_PROBABILITY)],
)
def test_probabilities_of_a_line_of_sight_agree(source, model):
    for row in of((SIONNA if source == "sionna" else NS3)["sight"], model):
        found = los_probability(model, row["distance_2d_m"])
        assert found == pytest.approx(row["los_probability"], rel=0, abs=1e-9), row


def shadowed_db(row, steps_m, **given):
    """Shadowing of the row's link, then again as its far end walks on: same draws whatever is given."""
    shadowing = Shadowing(
        ChannelCondition(row["condition"], row["model"], Streams(1)), frequency_hz=row["frequency_hz"], **given
    )
    position = np.array([[0.0, 0.0, row["tx_height_m"]], [row["distance_2d_m"], 0.0, row["rx_height_m"]]])
    rng, seen = np.random.default_rng(1), []
    for step in (0.0, *steps_m):
        position[1, 1] += step
        links = Links(np.array([1]), np.array([0]), Geometry.at_rest(position.copy()))
        seen.append(float(20 * np.log10(shadowing.gain(links, 0.0, rng)[0])))
    return seen


SHADOWING = [row for table in (SIONNA, NS3) for row in table["shadowing"]]


@pytest.mark.parametrize("model", sorted(LOS_PROBABILITY))
def test_shadowing_has_the_deviation_and_reach_of_the_tables(model):
    """Asked for by number it is the same process, value for value, at rest and along a walk."""
    rows = of(SHADOWING, model)
    assert {row["condition"] for row in rows} == {"los", "nlos"}
    for row in rows:
        by_table = shadowed_db(row, (3.0, 20.0))
        by_number = shadowed_db(row, (3.0, 20.0), sigma_db=row["sigma_db"], correlation_m=row["correlation_m"])
        assert by_table == pytest.approx(by_number, rel=1e-9), row
    spread = {row["sigma_db"] for row in rows if row["condition"] == "los"}
    assert len(spread) == (2 if model == "rma" else 1)  # rural: below and beyond the breakpoint
