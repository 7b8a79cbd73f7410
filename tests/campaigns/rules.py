"""Which alternatives of `options` go together: NEEDS, what one takes with it; RULES, what a complete row must fulfil.

What a scenario is refused for by itself is left to its own rules. These here are those that need data, graphs, gains or
files, and are found when the world is built.
"""

from options import complete

NEEDS = {
    ("protocol", "paper"): {"clipping": "batch"},
    ("allocator", "aligned"): {"objective": "sum", "channel": "sender"},
    ("mobility", "streets"): {"placement": "streets"},
    ("features", "gradients"): {"task": "fashion"},
    ("features", "patches"): {"task": "fashion"},
    ("features", "both"): {"task": "fashion"},
    ("gram", "yes"): {"task": "fashion", "features": "patches", "target": "total"},
    ("augment", "flip-crop"): {"task": "cnn"},
    ("regret", "yes"): {"task": "ridge"},
    ("strategy", "threads"): {"task": "cnn"},
    ("thermal", "credited"): {"objective": "sum"},
    ("control", "air"): {"multiplier": "product"},
    ("topology", "snr"): {"channel": "rayleigh"},
    ("condition", "nlosv"): {"channel": "highway"},
    ("strategy", "closed-form"): {"task": "synthetic"},
    ("blocks", "yes"): {"subbands": "4"},
}


def _whole(row):
    """Whether nothing takes links away from a frame."""
    return (
        (row["crashes"], row["blockage"], row["policy"]) == ("none", "none", "barrier")
        and row["duplex"] != "half"
        and row["control"] != "lossy"
        and row["energy"] != "battery"
    )


# Alternatives that name each of six nodes.
SIX = {
    "topology": ("edge-list", "graph-file"),
    "placement": ("file",),
    "mobility": ("waypoints",),
    "channel": ("matrix",),
    "power": ("listed",),
    "partition": ("file",),
    "energy": ("batteries",),
}


RULES = (
    lambda row: row["nodes"] == "6" or all(row[option] not in names for option, names in SIX.items()),
    lambda row: row["condition"] != "nlosv" or row["channel"] in ("shadowing", "highway"),
    lambda row: row["topology"] not in ("small-world", "k-regular") or row["nodes"] != "2",
    lambda row: row["partition"] != "file" or row["task"] not in ("fashion", "cnn", "user"),  # 900 samples
    lambda row: row["channel"] != "replay" or row["nodes"] != "9",
    lambda row: row["strategy"] != "closed-form" or row["task"] not in ("cnn", "user", "resnet"),
    lambda row: row["features"] == "none" or row["augment"] == "none",  # features are no images
    lambda row: row["mobility"] != "streets" or row["placement"] == "streets",
    lambda row: row["placement"] != "streets" or row["mobility"] in ("static", "streets", "track", "waypoints"),
    lambda row: row["mobility"] != "gauss-markov" or row["placement"] != "line",
    lambda row: row["mobility"] != "gauss-markov" or (row["nodes"], row["placement"]) != ("2", "grid"),  # a line
    lambda row: row["features"] == "none" or row["task"] in ("fashion", "user", "file"),
    lambda row: row["augment"] == "none" or row["task"] in ("cnn", "user", "resnet"),
    lambda row: row["regret"] == "no" or row["task"] in ("ridge", "logistic"),
    lambda row: row["strategy"] != "threads" or row["task"] in ("cnn", "user", "resnet"),
    lambda row: row["strategy"] in ("auto", "threads", "closed-form") or row["task"] not in ("ridge", "logistic"),
    lambda row: row["allocator"] == "lp" or row["channel"] in ("sender", "in-range") or row["topology"] == "none",
    lambda row: row["protocol"] == "hardened" or row["task"] not in ("ridge", "logistic"),  # penalties
    lambda row: row["task"] != "ridge" or row["partition"] in ("iid", "quantity", "file"),
    lambda row: row["balance"] != "power" or row["schedule"] not in ("adaptive", "margin") or _whole(row),
    lambda row: row["allocator"] == "lp" or row["schedule"] not in ("adaptive", "margin") or _whole(row),
)


def with_needs(row):
    """A row and what its alternatives take with them, unless it says something else."""
    for chosen in tuple(row.items()):
        row = {**NEEDS.get(chosen, {}), **row}
    return row


def keeps_rules(row):
    """Whether the complete row fulfils all rules."""
    whole = complete(row)
    return all(rule(whole) for rule in RULES)
