"""Every option of a scenario and the values that campaigns give it.

An option is a list of alternatives by name; an alternative is a table of dotted keys. The first one of each goes with
the first ones of all others. NEEDS names what an alternative takes with it, where the first ones would be refused.
"""

OPTIONS = {
    "nodes": {"6": {"network.nodes": 6}, "2": {"network.nodes": 2}, "9": {"network.nodes": 9}},
    "topology": {
        "full": {},
        "none": {"network.topology": "none"},
        "ring": {"network.topology": {"kind": "ring", "reach": 1}},
        "star": {"network.topology": "star"},
        "erdos-renyi": {"network.topology": {"kind": "erdos-renyi", "p": 0.6}},
        "small-world": {"network.topology": {"kind": "small-world", "k": 2, "p": 0.3}},
        "range": {"network.topology": {"kind": "range", "range_m": 90.0}},
        "snr": {"network.topology": {"kind": "snr", "min_snr_db": 5.0}},
    },
    "placement": {
        "disc": {"network.placement": {"kind": "disc", "radius_m": 40}},
        "grid": {"network.placement": {"kind": "grid", "spacing_m": 20.0}},
        "cluster": {"network.placement": {"kind": "cluster", "clusters": 2, "radius_m": 40.0}},
        "streets": {"network.map": "manhattan", "network.placement": "streets"},
    },
    "mobility": {
        "static": {},
        "random-waypoint": {"network.mobility": {"kind": "random-waypoint", "area_m": [80.0, 80.0]}},
        "gauss-markov": {"network.mobility": {"kind": "gauss-markov", "speed_mps": 10.0}},
        "track": {"network.mobility": {"kind": "track", "radius_m": 40.0}},
        "streets": {"network.mobility": "streets"},
    },
    "channel": {
        "uniform": {"channel.models": [{"model": "uniform"}]},
        "sender": {"channel.models": [{"model": "uniform", "per": "sender"}]},
        "rayleigh": {"channel.models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "rician": {"channel.models": [{"model": "friis"}, {"model": "rician", "process": "clarke"}]},
        "nakagami": {"channel.models": [{"model": "two-ray"}, {"model": "nakagami", "m": 0.7}]},
        "shadowing": {"channel.models": [{"model": "sidelink-urban"}, {"model": "shadowing"}]},
        "indoor": {"channel.models": [{"model": "inh-office", "enforce_range": False}]},
    },
    "condition": {
        "auto": {},
        "los": {"channel.condition": "los"},
        "nlos": {"channel.condition": "nlos"},
        "consistent": {"channel.spatial_consistency": True},
    },
    "power": {
        "equal": {"radio.power_dbm": 23},
        "uniform": {"radio.power_dbm": {"kind": "uniform", "low": 15, "high": 23}},
        "choice": {"radio.power_dbm": {"kind": "choice", "values": [10, 23]}},
    },
    "thermal": {"on": {}, "off": {"radio.thermal_noise": False}, "credited": {"privacy.credit_thermal": True}},
    "access": {
        "oac": {},
        "tdma": {"radio.access": "tdma"},
        "digital": {"radio.access": "digital"},
        "digital-coarse": {
            "radio.access": "digital",
            "radio.quantizer_bits": 1,
            "radio.quantizer_block": 7,
            "radio.rate_bps_hz": 4.0,
            "radio.attempts": 2,
            "radio.combining": False,
        },
    },
    "duplex": {"full": {}, "half": {"radio.duplex": "half"}, "residual": {"radio.cancellation_db": 90.0}},
    "control": {
        "reliable": {},
        "lossy": {"radio.control_failure": 0.3},
        "air": {"radio.z_exchange": "air"},
    },
    "csi": {"perfect": {}, "pilots": {"radio.csi": {"kind": "pilots", "symbols": 4}}},
    "phase": {
        "aligned": {},
        "errors": {"radio.phase_error_rad": 0.3},
        "offsets": {
            "radio.cfo_hz": {"kind": "uniform", "low": -30.0, "high": 30.0},
            "radio.timing_offset_s": {"kind": "uniform", "low": 0.0, "high": 2e-7},
        },
    },
    "interference": {
        "none": {},
        "physical": {"radio.interference": "physical"},
        "cutoff": {"radio.interference": "physical", "radio.interference_cutoff_db": 10.0},
    },
    "passes": {
        "none": {},
        "chebyshev": {"radio.mixing_passes": 3},
        "plain": {"radio.mixing_passes": 2, "radio.mixing": "plain"},
        "closing": {"learning.closing_passes": 4},
    },
    "subbands": {"1": {}, "4": {"radio.subbands": 4}},
    "slots": {"auto": {}, "three": {"radio.payload_slots": 3}},
    "full-power": {"no": {}, "yes": {"radio.use_full_power": True}},
    "allocator": {"lp": {}, "aligned": {"power.allocator": "aligned"}},
    "objective": {
        "own-noise": {"power.objective": "own-noise"},
        "sum": {"power.objective": "sum"},
        "max-min": {"power.objective": "max-min"},
        "min-noise": {"power.objective": "min-noise"},
    },
    "balance": {
        "receiver": {},
        "mean": {"power.balance_from": "mean"},
        "partial": {"power.balance": "partial"},
        "power": {"power.balance": "power"},
        "none": {"power.balance": False},
    },
    "multiplier": {
        "auto": {},
        "product": {"power.multiplier": "product"},
        "mean": {"power.multiplier": "mean"},
        "windowed": {"power.multiplier": "windowed"},
        "nodes": {"power.multiplier": "nodes"},
        "2.5": {"power.multiplier": 2.5},
    },
    "schedule": {
        "static": {},
        "first": {"power.reference": "first"},
        "adaptive": {"power.schedule": "adaptive"},
        "robust": {"power.schedule": "robust", "power.samples": 5},
        "margin": {"power.schedule": "adaptive", "power.csi_margin_db": 2.0},
    },
    "protocol": {"hardened": {}, "paper": {"privacy.protocol": "paper"}},
    "unit": {"sample": {}, "node": {"privacy.unit": "node"}},
    "target": {
        "1": {"privacy.epsilon_max": 1.0},
        "inf": {"privacy.epsilon_max": float("inf")},
        "total": {"privacy.epsilon_total": 4.0},
        "budget": {"privacy.epsilon_max": 1.0, "privacy.budget_total": 1.5},
    },
    "noise": {
        "independent": {},
        "pairwise": {"privacy.noise": "pairwise"},
        "neighbours": {"privacy.noise": "pairwise", "privacy.pairs": "neighbours", "privacy.against": "everyone"},
        "groups": {"privacy.noise": "pairwise", "privacy.pairs": {"groups": 2}, "privacy.pair_ratio": 3.0},
    },
    "clipping": {"per-sample": {}, "batch": {"privacy.clipping": "batch"}},
    "task": {
        "synthetic": {"learning.dataset": {"kind": "synthetic", "samples": 900, "test_samples": 200}},
        "fashion": {},
        "logistic": {
            "learning.dataset": {"kind": "synthetic", "samples": 900, "test_samples": 200, "classes": 3},
            "learning.model": "logistic",
        },
        "ridge": {
            "learning.dataset": {"kind": "synthetic-regression", "samples": 900, "test_samples": 200},
            "learning.model": "ridge",
        },
        "mlp": {
            "learning.dataset": {"kind": "synthetic", "samples": 900, "test_samples": 200},
            "learning.model": {"model": "mlp", "hidden": [8]},
        },
        "cnn": {"learning.model": {"model": "cnn", "channels": 4, "hidden": 8}},
        "user": {"learning.model": "nets.py:Net"},
    },
    "features": {"none": {}, "gradients": {"learning.features": "oriented-gradients"}},
    "augment": {"none": {}, "flip-crop": {"learning.augment": "flip-crop"}},
    "regret": {"no": {}, "yes": {"learning.regret": True}},
    "partition": {
        "iid": {},
        "dirichlet": {"learning.partition": {"kind": "dirichlet", "concentration": 0.5}},
        "shards": {"learning.partition": "shards"},
        "quantity": {"learning.partition": {"kind": "quantity", "form": "power-law"}},
    },
    "batch": {"8": {"learning.batch_size": 8}, "fraction": {"learning.batch_fraction": 0.1}},
    "sampling": {
        "without-replacement": {},
        "poisson": {"learning.sampling": "poisson"},
        "full": {"learning.sampling": "full"},
        "shuffled": {"learning.sampling": "shuffled"},
    },
    "strategy": {
        "auto": {},
        "loop": {"learning.strategy": "loop"},
        "threads": {"learning.strategy": "threads"},
        "vmap": {"learning.strategy": "vmap"},
    },
    "stopping": {
        "never": {},
        "window": {"learning.stop_after": 2, "learning.stop_within": 1.0, "learning.eval_every": 1},
    },
    "rate": {
        "inverse-sqrt": {},
        "constant": {"learning.learning_rate": "constant"},
        "cosine": {"learning.learning_rate": "cosine"},
        "warm-up": {"learning.learning_rate": {"kind": "warm-up", "length": 2}},
    },
    "dtype": {"float32": {}, "float64": {"learning.dtype": "float64"}},
    "evaluation": {"all": {}, "some": {"learning.eval_samples": 50}},
    "compute": {
        "constant": {},
        "log-normal": {"time.compute": {"kind": "log-normal", "spread": 1.0}},
        "flops": {"time.compute": {"kind": "flops", "gflops": 0.01}},
    },
    "policy": {
        "barrier": {},
        "deadline": {"time.policy": {"kind": "deadline", "cap_s": 0.006}},
        "clocked": {"time.policy": {"kind": "clocked", "period_s": 0.2}},
    },
    "crashes": {
        "none": {},
        "schedule": {"faults.crashes": {"kind": "schedule", "events": [{"node": 1, "at_s": 0.001, "for_s": 0.02}]}},
        "gone": {"faults.crashes": {"kind": "schedule", "events": [{"node": 0, "at_s": 0.0}]}},
        "listen": {
            "faults.crashes": {"kind": "exponential", "up_s": 0.03, "down_s": 0.01},
            "faults.rejoin": "listen",
        },
    },
    "blockage": {
        "none": {},
        "snr": {"faults.blockage": {"kind": "snr", "threshold_db": 10.0}},
        "schedule": {"faults.blockage": {"kind": "schedule", "events": [{"tx": 0, "rx": 1, "from_s": 0.0}]}},
    },
    "stragglers": {
        "none": {},
        "random": {"faults.stragglers": {"kind": "random", "probability": 0.4, "factor": 5.0}},
    },
    "jammer": {
        "none": {},
        "noise": {"faults.jammer": {"kind": "noise", "power_dbm": -70.0}},
        "transmitter": {"faults.jammer": {"kind": "transmitter", "power_dbm": 10.0, "period_s": 0.02}},
    },
    "energy": {
        "mains": {},
        "drawn": {"energy.efficiency": 0.3, "energy.receive_w": 0.1, "energy.compute_w": 0.5},
        "battery": {"energy.battery_j": 0.003},
    },
    "links": {
        "all": {},
        "evaluated": {"trace.links": "evaluated"},
        "auto": {"trace.links": "auto", "trace.link_rows": 20},
        "none": {"trace.links": "none"},
    },
}

NEEDS = {
    ("protocol", "paper"): {"clipping": "batch"},
    ("allocator", "aligned"): {"objective": "sum", "channel": "sender"},
    ("mobility", "streets"): {"placement": "streets"},
    ("features", "gradients"): {"task": "fashion"},
    ("augment", "flip-crop"): {"task": "cnn"},
    ("regret", "yes"): {"task": "ridge"},
    ("strategy", "threads"): {"task": "cnn"},
    ("thermal", "credited"): {"objective": "sum"},
    ("control", "air"): {"multiplier": "product"},
    ("topology", "snr"): {"channel": "rayleigh"},
}


def _whole(row):
    """Whether nothing takes links away from a frame."""
    return (
        (row["crashes"], row["blockage"], row["policy"]) == ("none", "none", "barrier")
        and row["duplex"] != "half"
        and row["control"] != "lossy"
        and row["energy"] != "battery"
    )


# What goes together by rules that need data, graphs or gains: else refused when the world is built.
RULES = (
    lambda row: row["mobility"] != "streets" or row["placement"] == "streets",
    lambda row: row["placement"] != "streets" or row["mobility"] in ("static", "streets", "track"),
    lambda row: row["mobility"] != "gauss-markov" or (row["nodes"], row["placement"]) != ("2", "grid"),  # a line
    lambda row: row["topology"] != "small-world" or row["nodes"] != "2",
    lambda row: row["features"] == "none" or row["task"] in ("fashion", "user"),
    lambda row: row["augment"] == "none" or row["task"] in ("cnn", "user"),
    lambda row: row["regret"] == "no" or row["task"] in ("ridge", "logistic"),
    lambda row: row["strategy"] != "threads" or row["task"] in ("cnn", "user"),
    lambda row: row["strategy"] in ("auto", "threads") or row["task"] not in ("ridge", "logistic"),
    lambda row: row["allocator"] == "lp" or row["channel"] == "sender" or row["topology"] == "none",
    lambda row: row["protocol"] == "hardened" or row["task"] not in ("ridge", "logistic"),  # penalties
    lambda row: row["task"] != "ridge" or row["partition"] in ("iid", "quantity"),
    lambda row: row["balance"] != "power" or row["schedule"] not in ("adaptive", "margin") or _whole(row),
    lambda row: row["allocator"] == "lp" or row["schedule"] not in ("adaptive", "margin") or _whole(row),
)

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, input_shape, classes):
        super().__init__()
        size = 1
        for length in input_shape:
            size *= length
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size, 6), torch.nn.Tanh(),
                                          torch.nn.Linear(6, classes))
    def forward(self, x):
        return self.layers(x)
"""


def complete(row):
    """A row with the first alternative of every option that it does not name."""
    return {option: row.get(option, next(iter(alternatives))) for option, alternatives in OPTIONS.items()}


def with_needs(row):
    """A row and what its alternatives take with them, unless it says something else."""
    for chosen in tuple(row.items()):
        row = {**NEEDS.get(chosen, {}), **row}
    return row


def table_of(row):
    """The scenario that a row of alternatives describes; options that it does not name have their first one."""
    table = {
        "scenario": {"name": "combination", "seed": 3, "rounds": 3},
        "learning": {"eval_every": 2},
        "privacy": {},
        "trace": {"flush_every": 20, "checkpoint_every": 20},
    }
    for option, name in complete(row).items():
        for key, value in OPTIONS[option][name].items():
            section, _, name = key.partition(".")
            table.setdefault(section, {})[name] = value
    return table
