"""Files that alternatives of `options` name: a network and a listener of the user's, places, links, gains, data.

What speaks of nodes speaks of six, 0 to 5, and of 900 samples.
"""

import json

import numpy as np
import pandas as pd

NODES, SAMPLES = 6, 900
LOSS_DB = [[70.0 + (7 * tx + 3 * rx) % 10 if tx != rx else 0.0 for tx in range(NODES)] for rx in range(NODES)]

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

LISTENER = """
def note(event):
    assert len(event.gain) == len(event.rx)


def changes(env, network, rng):
    # what a process may do, all of it undone or overtaken later
    while True:
        yield network.wait(float(rng.exponential(0.01)))
        node = int(rng.integers(network.nodes))
        network.lower_power(node, float(rng.uniform(0, 6)))
        network.block(0, 1)
        network.take_down(node)
        yield network.wait(0.004)
        network.bring_up(node)
        network.unblock(0, 1)
"""


def write(folder):
    """All of them into a folder, unless they are there."""
    if (folder / "gains.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nets.py").write_text(NET)
    (folder / "listeners.py").write_text(LISTENER)
    places = [(40.0 + node % 2, 12.0 * node - 30.0) for node in range(NODES)]
    (folder / "sites.csv").write_text("x_m,y_m\n" + "".join(f"{x},{y}\n" for x, y in places))
    (folder / "walks.csv").write_text(
        "time_s,node,x_m,y_m,z_m\n"
        + "".join(f"0,{node},{x},{y},1.5\n9,{node},{x},{y + 5},1.5\n" for node, (x, y) in enumerate(places))
    )
    ring = [(node, (node + 1) % NODES) for node in range(NODES)]
    (folder / "links.csv").write_text("tx,rx\n" + "".join(f"{tx},{rx}\n" for tx, rx in [*ring, (3, 0), (0, 2)]))
    edges = [{"source": one, "target": other} for one, other in [*ring, (0, 3)]]
    nodes = [{"id": node} for node in range(NODES)]
    (folder / "graph.json").write_text(
        json.dumps({"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "edges": edges})
    )
    rng = np.random.default_rng(0)
    labels = np.arange(SAMPLES) % 3
    images = rng.normal(size=(SAMPLES + 60, 1, 8, 8)).astype(np.float32)
    tests = np.arange(60) % 3
    images += np.concatenate([labels, tests])[:, None, None, None]
    np.savez(folder / "images.npz", train_x=images[:SAMPLES], train_y=labels, test_x=images[SAMPLES:], test_y=tests)
    (folder / "owners.json").write_text(json.dumps({"node": (np.arange(SAMPLES) % (NODES + 1) - 1).tolist()}))
    rows = [(time_s, tx, rx) for time_s in (0.0, 0.05, 0.1) for tx in range(NODES) for rx in range(NODES) if tx != rx]
    frame = pd.DataFrame(rows, columns=["time_s", "tx", "rx"])
    frame["gain"] = rng.uniform(1e-4, 1e-3, len(frame))
    frame.to_parquet(folder / "gains.parquet")
