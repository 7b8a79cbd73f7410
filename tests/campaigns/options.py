"""Every option of a scenario and the values that campaigns give it.

An option is a list of alternatives by name; an alternative is a table of dotted keys. The first one of each goes with
the first ones of all others; which others go together is in `rules`, the files that alternatives name in `row_files`.
Every key of a scenario and every part that has a name is here, or among what is left out with its reason
(`test_options`).
"""

from row_files import LOSS_DB

OPTIONS = {
    "nodes": {"6": {"network.nodes": 6}, "2": {"network.nodes": 2}, "9": {"network.nodes": 9}},
    "topology": {
        "full": {},
        "none": {"network.topology": "none"},
        "ring": {"network.topology": {"kind": "ring", "reach": 1}},
        "star": {"network.topology": "star"},
        "erdos-renyi": {"network.topology": {"kind": "erdos-renyi", "p": 0.6}},
        "k-regular": {"network.topology": {"kind": "k-regular", "degree": 2}},
        "small-world": {"network.topology": {"kind": "small-world", "k": 2, "p": 0.3}},
        "random-geometric": {"network.topology": {"kind": "random-geometric", "radius_m": 90.0}},
        "range": {"network.topology": {"kind": "range", "range_m": 90.0}, "network.joint_window": 2},
        "snr": {"network.topology": {"kind": "snr", "min_snr_db": 5.0}},
        "edge-list": {"network.topology": {"kind": "edge-list", "file": "links.csv"}},
        "graph-file": {"network.topology": {"kind": "graph-file", "file": "graph.json"}},
    },
    "placement": {
        "disc": {"network.placement": {"kind": "disc", "radius_m": 40}},
        "block": {"network.placement": {"kind": "block", "side_m": 60.0, "height_m": [1.5, 10.0]}},
        "grid": {"network.placement": {"kind": "grid", "spacing_m": 20.0}},
        "line": {"network.placement": {"kind": "line", "spacing_m": 12.0}},
        "poisson-disc": {"network.placement": {"kind": "poisson-disc", "radius_m": 40.0, "min_distance_m": 5.0}},
        "cluster": {"network.placement": {"kind": "cluster", "clusters": 2, "radius_m": 40.0}},
        "streets": {"network.map": "manhattan", "network.placement": "streets"},
        "file": {"network.placement": {"kind": "file", "file": "sites.csv"}},
    },
    "mobility": {
        "static": {},
        "random-waypoint": {"network.mobility": {"kind": "random-waypoint", "area_m": [80.0, 80.0]}},
        "random-walk": {"network.mobility": {"kind": "random-walk", "area_m": [300.0, 300.0]}},
        "gauss-markov": {"network.mobility": {"kind": "gauss-markov", "speed_mps": 10.0}},
        "track": {"network.mobility": {"kind": "track", "radius_m": 40.0}},
        "streets": {"network.mobility": "streets"},
        "waypoints": {"network.mobility": {"kind": "waypoints", "file": "walks.csv"}},
        "sumo": {
            "network.map": {"kind": "sumo-polygons", "file": "scenarios/traces/crossing_sumo.poly.xml"},
            "network.mobility": {"kind": "sumo-fcd", "file": "scenarios/traces/crossing_sumo.fcd.xml.gz"},
        },
    },
    "channel": {
        "uniform": {"channel.models": [{"model": "uniform"}]},
        "sender": {"channel.models": [{"model": "uniform", "per": "sender"}]},
        "rayleigh": {"channel.models": [{"model": "log-distance"}, {"model": "rayleigh"}]},
        "rician": {"channel.models": [{"model": "friis"}, {"model": "rician", "process": "clarke"}]},
        "nakagami": {"channel.models": [{"model": "two-ray"}, {"model": "nakagami", "m": 0.7}]},
        "shadowing": {"channel.models": [{"model": "sidelink-urban"}, {"model": "shadowing"}]},
        "indoor": {"channel.models": [{"model": "inh-office", "enforce_range": False}]},
        "micro": {"channel.models": [{"model": "umi-street-canyon", "enforce_range": False}, {"model": "shadowing"}]},
        "macro": {"channel.models": [{"model": "uma", "enforce_range": False}]},
        "rural": {"channel.models": [{"model": "rma", "enforce_range": False}]},
        "highway": {"channel.models": [{"model": "sidelink-highway", "tall_vehicles": 0.5}]},
        "slopes": {"channel.models": [{"model": "three-log-distance"}]},
        "in-range": {"channel.models": [{"model": "range", "range_m": 1000.0}]},
        "matrix": {"channel.models": [{"model": "matrix", "loss_db": LOSS_DB}]},
        "replay": {"channel.models": [{"model": "replay", "file": "gains.parquet", "after_end": "hold"}]},
        "tdl": {"channel.models": [{"model": "log-distance"}, {"model": "tdl"}]},
    },
    "condition": {
        "auto": {},
        "los": {"channel.condition": "los"},
        "nlos": {"channel.condition": "nlos"},
        "nlosv": {"channel.condition": "nlosv"},
        "consistent": {"channel.spatial_consistency": True},
    },
    "carrier": {"3.5": {}, "0.9": {"channel.frequency_hz": 9e8}},
    "receiver": {
        "usual": {},
        "quiet": {
            "radio.bandwidth_hz": 4e6,
            "radio.noise_figure_db": 2.0,
            "radio.temperature_k": 250.0,
            "radio.guard_s": 0.0,
        },
    },
    "power": {
        "equal": {"radio.power_dbm": 23},
        "uniform": {"radio.power_dbm": {"kind": "uniform", "low": 15, "high": 23}},
        "choice": {"radio.power_dbm": {"kind": "choice", "values": [10, 23]}},
        "listed": {"radio.power_dbm": [23, 20, 17, 23, 20, 17]},
    },
    "thermal": {"on": {}, "off": {"radio.thermal_noise": False}, "credited": {"privacy.credit_thermal": True}},
    "access": {
        "oac": {},
        "turns": {"radio.alignment": "turns", "radio.truncate_snr_db": 3.0, "radio.subslots": 3},
        "hubs": {"radio.alignment": "hubs", "radio.truncate_snr_db": 0.0},
        "hubs-and-back": {
            "radio.alignment": "hubs",
            "radio.truncate_snr_db": 6.0,
            "radio.hub_order": "there-and-back",
            "radio.hub_rotation": True,
            "radio.hub_failure": 0.2,
        },
        "blind": {"radio.alignment": "none", "radio.antennas": 3, "radio.antenna_correlation": 0.3},
        "hubs-of-antennas": {"radio.alignment": "hubs", "radio.truncate_snr_db": 0.0, "radio.antennas": 2},
        "server": {
            "radio.alignment": "server",
            "radio.truncate_snr_db": 0.0,
            "network.server": {"at": "center", "antennas": 2, "down": [[2, 2]], "without": "hubs"},
        },
        "tdma": {"radio.access": "tdma"},
        "tdma-combining": {"radio.access": "tdma", "radio.antennas": 2},
        "tdma-truncated": {"radio.access": "tdma", "radio.truncate_snr_db": 3.0},
        "digital": {"radio.access": "digital"},
        "digital-coarse": {
            "radio.access": "digital",
            "radio.quantizer_bits": 1,
            "radio.quantizer_block": 7,
            "radio.rate_bps_hz": 12.0,
            "radio.attempts": 2,
            "radio.combining": False,
        },
        "digital-rates": {
            "radio.access": "digital",
            "radio.rate_min_bps_hz": 0.5,
            "radio.rate_max_bps_hz": 2.0,
            "radio.gap_db": 0.0,
            "radio.fade_margin_db": 3.0,
        },
    },
    "duplex": {"full": {}, "half": {"radio.duplex": "half"}, "residual": {"radio.cancellation_db": 90.0}},
    "control": {
        "reliable": {},
        "lossy": {"radio.control_failure": 0.3},
        "air": {"radio.z_exchange": "air"},
        "slow": {"radio.control_bps": 1e4, "radio.control_bits": 4},
    },
    "csi": {"perfect": {}, "pilots": {"radio.csi": {"kind": "pilots", "symbols": 4}}},
    "phase": {
        "aligned": {},
        "errors": {"radio.phase_error_rad": 0.3},
        "offsets": {
            "radio.cfo_hz": {"kind": "uniform", "low": -30.0, "high": 30.0},
            "radio.timing_offset_s": {"kind": "uniform", "low": 0.0, "high": 2e-7},
        },
        "flight": {"radio.flight_time": True, "radio.timing_error_s": 1e-8},
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
        "half": {"power.balance": "partial", "power.balance_exponent": 0.5},
        "power": {"power.balance": "power"},
        "none": {"power.balance": False},
    },
    "multiplier": {
        "auto": {},
        "product": {"power.multiplier": "product"},
        "mean": {"power.multiplier": "mean"},
        "windowed": {"power.multiplier": "windowed"},
        "nodes": {"power.multiplier": "nodes"},
        "balanced": {"power.multiplier": "balanced"},
        "none": {"power.multiplier": "none"},
        "2.5": {"power.multiplier": 2.5},
    },
    "schedule": {
        "static": {},
        "first": {"power.reference": "first"},
        "adaptive": {"power.schedule": "adaptive"},
        "robust": {"power.schedule": "robust", "power.samples": 5},
        "margin": {"power.schedule": "adaptive", "power.csi_margin_db": 2.0},
    },
    "floors": {"usual": {}, "high": {"power.alpha_min": 0.005, "power.beta_min": 0.01}},
    "protocol": {"hardened": {}, "paper": {"privacy.protocol": "paper"}},
    "unit": {"sample": {}, "node": {"privacy.unit": "node"}},
    "adjacency": {"replace-one": {}, "zero-out": {"privacy.adjacency": "zero-out"}},
    "target": {
        "1": {"privacy.epsilon_max": 1.0},
        "inf": {"privacy.epsilon_max": float("inf")},
        "total": {"privacy.epsilon_total": 4.0},
        "budget": {"privacy.epsilon_max": 1.0, "privacy.budget_total": 0.04},  # one release of the first alternatives
    },
    "deltas": {
        "usual": {},
        "small": {"privacy.delta": 1e-8, "privacy.delta_total": 1e-7},
        "large": {"privacy.delta": 0.01, "privacy.delta_total": 0.02},  # above 1/n: warned of
    },
    "rho": {"10": {}, "4": {"privacy.rho": 4.0}},
    "noise": {
        "independent": {},
        "pairwise": {"privacy.noise": "pairwise"},
        "coalition": {"privacy.noise": "pairwise", "privacy.coalition": 3, "privacy.against": "coalition"},
        "neighbours": {"privacy.noise": "pairwise", "privacy.pairs": "neighbours", "privacy.against": "everyone"},
        "groups": {"privacy.noise": "pairwise", "privacy.pairs": {"groups": 2}, "privacy.pair_ratio": 3.0},
    },
    "clipping": {"per-sample": {}, "batch": {"privacy.clipping": "batch"}},
    "norms": {"usual": {}, "small": {"privacy.clip_norm": 0.2, "learning.projection_radius": 1e-3}},
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
        "file": {"learning.dataset": {"kind": "file", "path": "images.npz"}},
        "resnet": {"learning.dataset": {"kind": "file", "path": "images.npz"}, "learning.model": "resnet20"},
    },
    "features": {
        "none": {},
        "gradients": {"learning.features": "oriented-gradients"},
        "patches": {"learning.features": {"kind": "random-patches", "filters": 8, "dimensions": 16}},
        "both": {"learning.features": [{"kind": "random-patches", "filters": 8}, "oriented-gradients"]},
    },
    "update": {
        "sgd": {},
        "momentum": {"learning.update": "momentum", "learning.momentum": 0.3},
        "nesterov": {"learning.update": "nesterov"},
        "weight-decay": {"learning.update": "weight-decay", "learning.weight_decay": 0.01},
        "push-sum": {"learning.update": "push-sum", "learning.update_kind": "base"},
        "local-steps": {"learning.update": "local-steps", "learning.local_steps": 2, "learning.local_rate": 0.05},
        "heavy-ball": {"learning.update": "heavy-ball"},
        "top-k": {"learning.update": "error-feedback", "learning.top_k": 0.2},
        "one-bit": {"learning.update": "error-feedback", "learning.compression": "one-bit"},
        "tracking": {"learning.update": "gradient-tracking", "learning.tracking": 0.5},
    },
    "gram": {"no": {}, "yes": {"privacy.gram_share": 0.2}},
    "augment": {"none": {}, "flip-crop": {"learning.augment": "flip-crop"}},
    "regret": {"no": {}, "yes": {"learning.regret": True}},
    "partition": {
        "iid": {},
        "dirichlet": {"learning.partition": {"kind": "dirichlet", "concentration": 0.5}},
        "shards": {"learning.partition": "shards"},
        "quantity": {"learning.partition": {"kind": "quantity", "form": "power-law"}},
        "file": {"learning.partition": {"kind": "file", "path": "owners.json"}},
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
        "closed-form": {"learning.strategy": "closed-form"},
        "threads": {"learning.strategy": "threads"},
        "vmap": {"learning.strategy": "vmap"},
    },
    "stopping": {
        "never": {},
        "window": {"learning.stop_after": 2, "learning.stop_within": 1.0, "learning.eval_every": 1},
        "anchored": {
            "learning.stop_rule": "anchored",
            "learning.stop_after": 1,
            "learning.stop_within": 1.0,
            "learning.eval_every": 1,
        },
    },
    "rate": {
        "inverse-sqrt": {},
        "constant": {"learning.learning_rate": "constant"},
        "auto": {"learning.learning_rate": "auto"},
        "inverse": {"learning.learning_rate": {"kind": "inverse", "initial": 0.1}},
        "cosine": {"learning.learning_rate": "cosine"},
        "piecewise": {"learning.learning_rate": {"kind": "piecewise", "boundaries": [1], "rates": [0.1, 0.02]}},
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
        "schedule": {
            "faults.stragglers": {
                "kind": "schedule",
                "events": [{"node": 1, "factor": 9.0, "from_round": 1, "to_round": 2}],
            }
        },
    },
    "jammer": {
        "none": {},
        "noise": {"faults.jammer": {"kind": "noise", "power_dbm": -70.0}},
        "transmitter": {"faults.jammer": {"kind": "transmitter", "power_dbm": 10.0, "period_s": 0.02}},
    },
    "byzantine": {
        "none": {},
        "sign-flip": {"faults.byzantine": {"kind": "sign-flip", "nodes": [1]}},
        "noise": {"faults.byzantine": {"kind": "noise", "share": 0.2}},
        "zero": {"faults.byzantine": {"kind": "zero", "nodes": [2], "from_round": 2}},
        "replay": {"faults.byzantine": {"kind": "replay", "nodes": [0]}},
    },
    "energy": {
        "mains": {},
        "drawn": {"energy.efficiency": 0.3, "energy.receive_w": 0.1, "energy.compute_w": 0.5},
        "battery": {"energy.battery_j": 0.003},
        "batteries": {"energy.battery_j": [0.003, 1.0, 1.0, 0.002, 1.0, 1.0]},
    },
    "processes": {"none": {}, "file": {"events.processes": ["listeners.py:changes"]}},
    "links": {
        "all": {},
        "evaluated": {"trace.links": "evaluated"},
        "auto": {"trace.links": "auto", "trace.link_rows": 20},
        "none": {"trace.links": "none"},
    },
    "blocks": {"no": {}, "yes": {"trace.blocks": True}},
    "checkpoints": {"rounds": {}, "minutes": {"trace.checkpoint_minutes": 1e-6}},
    "listener": {"none": {}, "file": {"trace.connect": {"phy.rx": "listeners.py:note"}}},
}

# A baseline is no key: it is named beside the scenario, `--baseline`. "none": the scenario itself.
BASELINE = "baseline"
OPTIONS[BASELINE] = {
    name: {}
    for name in (
        "none",
        "local",
        "central",
        "d-psgd",
        "no-privacy",
        "own-noise",
        "tdma",
        "digital",
        "central-dp",
        "server",
    )
}


def complete(row):
    """A row with the first alternative of every option that it does not name."""
    return {option: row.get(option, next(iter(alternatives))) for option, alternatives in OPTIONS.items()}


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
