"""A small network in motion, whose links come and go."""

from conftest import over, tiny

WALK = {"kind": "random-waypoint", "speed_mps": [5.0, 15.0], "area_m": [300.0, 300.0]}


def moving(**sections):
    base = {
        "scenario": {"rounds": 30},
        "network": {"nodes": 8, "mobility": WALK, "topology": {"kind": "snr", "min_snr_db": 28.0}},
        "channel": {"models": [{"model": "log-distance", "exponent": 3.2}, {"model": "rayleigh"}]},
        "radio": {"power_dbm": 23, "bandwidth_hz": 1e7},
        "time": {"compute": {"kind": "constant", "seconds": 0.5}},
    }
    return tiny(**over(base, sections))
