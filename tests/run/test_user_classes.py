"""A user's file is imported once per run, and each class in it constructed once."""

from collections import Counter
from pathlib import Path

import pytest
from conftest import tiny_table

from wirelessdl.preview.channel import link_facts, preview_channel
from wirelessdl.preview.plan import preview_plan
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.scenario.loader import parse_scenario

# by scenario key: what a class of each kind does, once it has been counted
BODIES = {
    "network.map": """
    def indoors(self, ground_m):
        return np.zeros(len(ground_m), bool)
    def obstructed(self, links):
        return np.zeros(len(links), bool)
""",
    "network.placement": """
    def positions(self, nodes, rng):
        return np.column_stack([rng.uniform(0, 100, (nodes, 2)), np.full(nodes, 1.5)])
""",
    "network.mobility": """
    def geometry(self, time_s):
        velocity = np.tile([3.0, 0.0, 0.0], (4, 1))
        return Geometry(self.given["start_m"] + time_s * velocity, velocity)
""",
    "network.topology": """
    follows_motion = True
    def links(self, geometry, snr_db, rng):
        return Links.from_mask(np.ones((4, 4), bool), geometry)
""",
    "channel.models": """
    small_scale = True
    def gain(self, links, time_s, rng):
        return rng.rayleigh(0.5**0.5, len(links))
""",
    "radio.csi": """
    symbols = 2
    def estimate(self, links, gain, pilot_w, noise_w, rng):
        return gain
""",
    "power.allocator": """
    def allocate(self, problem, theta=None):
        return solve(problem, objective="own-noise", theta=theta)
""",
    "learning.dataset": """
    def load(self):
        x, y = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32), np.arange(200) % 3
        return Dataset("mine", x[:160], y[:160], x[160:], y[160:], classes=3)
""",
    "learning.features": """
    def transform(self, samples):
        return samples[:, ::-1]
""",
    "learning.model": """
    def prepare(self):
        self.layer = torch.nn.Linear(6, 3)
    def forward(self, x):
        return self.layer(x)
""",
    "learning.partition": """
    def split(self, labels, nodes, rng):
        return np.array_split(rng.permutation(len(labels)), nodes)
""",
    "radio.access": """
    def mix(self, links, gain, amplitude, on_air):
        heard = np.bincount(links.rx, minlength=links.nodes)
        return 0.5 / heard[links.rx], np.where(heard > 0, 0.5, 1.0), np.zeros(links.nodes)
""",
    "privacy.noise": """
    def protect(self, plan, on_air, links, sigma):
        return Protection(plan)
""",
    "learning.update": """
    def base(self, received, state, round):
        return received, received, state
""",
    "learning.learning_rate": """
    def rate(self, round):
        return 0.1 / round
""",
    "time.compute": """
    def duration_s(self, node, round):
        return 0.001 * (node + 1)
""",
    "time.policy": """
    def wait(self, gate):
        yield gate.all_ready()
""",
    "faults.crashes": """
    def outages(self, node, rng):
        return [(0.02, 0.005)] if node == 2 else []
""",
    "faults.blockage": """
    def blocked(self, links, time_s, snr_db):
        return np.zeros(len(links), bool)
""",
    "faults.stragglers": """
    def factor(self, node, round):
        return 1.0
""",
    "faults.byzantine": """
    def send(self, honest, first, limit, round, rng):
        return -honest
""",
    "learning.robust": """
    def combine(self, values, weight, limit):
        return values.median(dim=0).values
""",
    "faults.jammer": """
    def noise_w(self, geometry, time_s):
        return np.full(geometry.nodes, 1e-12)
""",
    "events.processes": """
    def process(self, env, network, rng):
        yield network.wait(0.01)
        network.lower_power(0, 3.0)
""",
}
ASKED = {"network.mobility": ("start_m",)}  # constructor arguments that a body needs
HEADER = """import numpy as np
import torch
from wirelessdl import Geometry, Links
from wirelessdl.learning.data import Dataset
from wirelessdl.mechanism import Protection
from wirelessdl.power.allocate import solve
def told(word):
    with open({log!r}, "a") as log:
        log.write(word + "\\n")
told("import {key}")
class Mine{base}:
    def __init__(self{arguments}):
        {parent}
        told("construct {key}")
        self.given = dict({given})
        if hasattr(self, "prepare"):
            self.prepare()
{body}"""


def write_files(folder: Path) -> Path:
    """One file and class for each part; what happens to them is written, line by line, to the path returned."""
    log = folder / "log.txt"
    for key, body in BODIES.items():
        module, asked = key == "learning.model", ASKED.get(key, ())
        source = HEADER.format(
            log=str(log),
            key=key,
            base="(torch.nn.Module)" if module else "",
            parent="super().__init__()" if module else "pass",
            arguments="".join(f", {name}" for name in asked),
            given=", ".join(f"{name}={name}" for name in asked),
            body=body.lstrip("\n"),
        )
        (folder / f"{key.replace('.', '_')}.py").write_text(source)
    return log


def scenario_of(folder: Path, left_out: str):
    table = tiny_table(scenario={"rounds": 6}, power={"schedule": "robust", "samples": 8}, learning={"eval_every": 2})
    for key in BODIES:
        if key == left_out:
            continue
        section, _, name = key.partition(".")
        part = f"{key.replace('.', '_')}.py:Mine"
        table.setdefault(section, {})[name] = (
            [{"model": "log-distance"}, {"model": part}] if key == "channel.models" else part
        )
    table["faults"]["byzantine"] = {"kind": table["faults"]["byzantine"], "nodes": [1]}
    table["events"] = {"processes": [table["events"]["processes"]]}
    return parse_scenario(table, folder=str(folder))


def previewed(scenario, folder: Path) -> None:  # noqa: ARG001
    world = build(scenario, device="cpu")
    assert preview_plan(world).verdict
    found = preview_channel(world)
    link_facts(world, found)


def run_whole(scenario, folder: Path) -> None:
    run = simulate(scenario, out=folder / "out", device="cpu")
    assert run.summary["rounds"] == 6
    assert (run.events["kind"] == "crash").any()
    assert run.nodes.groupby("node")["x_m"].nunique().min() == 6  # they move


@pytest.mark.parametrize("use", [run_whole, previewed])
@pytest.mark.parametrize("left_out", ["radio.access", "learning.robust"])  # which do not go together
def test_every_class_is_imported_and_constructed_once(use, left_out, tmp_path):
    log = write_files(tmp_path)
    use(scenario_of(tmp_path, left_out), tmp_path)
    counted = Counter(log.read_text().splitlines())
    assert counted == {f"{what} {key}": 1 for key in BODIES if key != left_out for what in ("import", "construct")}


def test_every_part_that_a_scenario_may_name_is_counted():
    from wirelessdl.run.registry import PARTS

    assert set(BODIES) == set(PARTS)
