"""Makes pathloss_sionna.json: TR 38.901 numbers by Sionna (NVIDIA, Apache-2.0), called by its public interface.

    pip install --no-deps sionna-no-rt && pip install torch numpy scipy h5py matplotlib importlib-resources
    python tests/reference/make_pathloss_sionna.py

The file in the repository was made with sionna-no-rt 2.2.0, in double precision. Users stay lower than their
base station and, in UMa, lower than 13 m: above that Sionna draws the environment height at random.
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch
from sionna.phy.channel.tr38901 import InHScenario, PanelArray, RMaScenario, UMaScenario, UMiScenario

KINDS = {
    "umi-street-canyon": (UMiScenario, {"o2i_model": "low"}),
    "uma": (UMaScenario, {"o2i_model": "low"}),
    "inh-office": (InHScenario, {"indoor_scenario": "open"}),
    "rma": (RMaScenario, {}),
}
# frequencies in GHz, base heights, user heights, ground distances in metres
GRIDS = {
    "umi-street-canyon": ((0.7, 3.5, 28.0), (5.0, 10.0), (1.5, 4.0), (12.0, 60.0, 250.0, 1000.0, 4500.0)),
    "uma": ((0.7, 3.5, 28.0), (25.0, 40.0), (1.5, 12.5), (12.0, 60.0, 400.0, 1500.0, 4500.0)),
    "inh-office": ((0.7, 3.5, 60.0), (3.0, 4.5), (1.0, 1.5), (1.0, 5.0, 20.0, 80.0, 145.0)),
    "rma": ((0.7, 3.5, 6.0), (35.0, 110.0), (1.5, 9.0), (12.0, 300.0, 1200.0, 4900.0)),
}
SIGHT_M = {
    "umi-street-canyon": (5.0, 18.0, 18.5, 25.0, 50.0, 100.0, 300.0, 1000.0),
    "uma": (5.0, 18.0, 18.5, 25.0, 50.0, 100.0, 300.0, 1000.0),
    "inh-office": (1.0, 5.0, 6.5, 20.0, 49.0, 50.0, 100.0, 149.0),
    "rma": (5.0, 10.0, 10.5, 50.0, 300.0, 1000.0, 3000.0, 9000.0),
}
SHADOW_FADING = 3  # Sionna's place of it among the large-scale parameters, as lg of power
CONDITIONS = {"los": True, "nlos": False}


def placed(model, ghz, base_m, user_m, ground_m, *, los):
    """A scenario of one base station and one user at each ground distance."""
    kind, more = KINDS[model]
    antenna = PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=ghz * 1e9,
        precision="double",
    )
    scenario = kind(
        carrier_frequency=ghz * 1e9,
        ut_array=antenna,
        bs_array=antenna,
        direction="downlink",
        precision="double",
        **more,
    )
    users = torch.tensor([[[d, 0.0, user_m] for d in ground_m]], dtype=torch.float64)
    base = torch.tensor([[[0.0, 0.0, base_m]]], dtype=torch.float64)
    scenario.set_topology(
        ut_loc=users,
        bs_loc=base,
        ut_orientations=torch.zeros_like(users),
        bs_orientations=torch.zeros_like(base),
        ut_velocities=torch.zeros_like(users),
        in_state=torch.full((1, len(ground_m)), model == "inh-office"),  # elsewhere outdoors: no wall to pass
        los=los,
    )
    return scenario


loss, sight, shadowing = [], [], []
for model, (bands, bases, users, ground_m) in GRIDS.items():
    for ghz in bands:
        for base_m in bases:
            for user_m in users:
                ends = {"frequency_hz": ghz * 1e9, "tx_height_m": base_m, "rx_height_m": user_m}
                for condition, los in CONDITIONS.items():
                    scenario = placed(model, ghz, base_m, user_m, ground_m, los=los)
                    link = {"model": model, "condition": condition, **ends}
                    for d, value in zip(ground_m, scenario.basic_pathloss[0, 0].tolist(), strict=True):
                        loss.append({**link, "distance_2d_m": d, "loss_db": value})
                    if (ghz, base_m, user_m) == (bands[0], bases[0], users[0]):
                        sigma_db = 10 * scenario.lsp_log_std[0, 0, :, SHADOW_FADING]
                        reach_m = scenario.get_param("corrDistSF")[0, 0]
                        for d, sigma, reach in zip(ground_m, sigma_db.tolist(), reach_m.tolist(), strict=True):
                            shadowing.append({**link, "distance_2d_m": d, "sigma_db": sigma, "correlation_m": reach})
    for user_m in users:
        scenario = placed(model, bands[0], bases[0], user_m, SIGHT_M[model], los=True)
        for d, value in zip(SIGHT_M[model], scenario.los_probability[0, 0].tolist(), strict=True):
            sight.append({"model": model, "rx_height_m": user_m, "distance_2d_m": d, "los_probability": value})


def lines(rows):
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"


path = Path(__file__).with_name("pathloss_sionna.json")
head = {"source": "sionna-no-rt (Apache-2.0), tables of TR 38.901 v19.2", "version": version("sionna-no-rt")}
parts = [f' "{key}": {json.dumps(value)}' for key, value in head.items()]
parts += [f' "{key}": {lines(rows)}' for key, rows in (("loss", loss), ("sight", sight), ("shadowing", shadowing))]
path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
