"""A scenario whose run a report shows in full, and the data of a page as its script reads them."""

import base64
import json
import re

import numpy as np
from conftest import over, tiny

FIGURES = {
    *("fig-map", "fig-learned", "fig-accuracy", "fig-energy", "fig-loss", "fig-tradeoff", "fig-totals", "fig-heat"),
    *("fig-split", "fig-radiated", "fig-weight", "fig-gap", "fig-timeline", "fig-channel"),
}
TYPES = {"Float32Array": "<f4", "Int16Array": "<i2", "Uint16Array": "<u2", "Uint8Array": "u1"}


def fading_scenario(**sections):
    """Five nodes that move and fade; a budget silences some of them."""
    base = {
        "scenario": {"rounds": 24},
        "network": {
            "nodes": 5,
            "placement": {"kind": "disc", "radius_m": 40},
            "mobility": {"kind": "random-waypoint", "speed_mps": [20.0, 40.0]},
        },
        "channel": {"models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "radio": {"payload_slots": 1},
        "privacy": {"budget_total": 0.5},
        "learning": {"eval_every": 4, "partition": {"kind": "dirichlet", "concentration": 1.0}},
    }
    return tiny(**over(base, sections))


def embedded(path):
    """The data of a page, as its script reads them."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1]
    return json.loads(text)["runs"]


def unpacked(packed):
    raw = np.frombuffer(base64.b64decode(packed["base64"]), dtype=TYPES[packed["kind"]]).reshape(packed["shape"])
    if "scale" not in packed:
        return raw
    return np.where(raw == packed["none"], np.nan, raw * packed["scale"])
