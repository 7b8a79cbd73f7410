"""A scenario whose runs wait in a round while there is a file named hold, and say when they reach their last round."""

from pathlib import Path

import tomli_w
from conftest import tiny_table

ROUNDS = 30
HELD_IN = 25  # after the checkpoint of round 20
HOOK = f"""
import os
import time

def hold(event):
    if event.round == {HELD_IN} and os.path.exists("hold"):
        open(f"held-{{os.getpid()}}", "w").close()
        while os.path.exists("hold"):
            time.sleep(0.01)
    if event.round == {ROUNDS}:
        with open("ends", "a") as ends:
            ends.write(f"{{os.getpid()}}\\n")
"""
STUDY = """
[study]
name = "held"
scenario = "tiny.toml"
seeds = 3
runs = 2
local = false

[study.grid]
"privacy.epsilon_max" = [0.5, inf]
"network.nodes" = [3, 4]
"""


def write_study(folder: Path) -> None:
    """24 runs of a second or less."""
    table = tiny_table(
        scenario={"rounds": ROUNDS},
        learning={"dataset": {"kind": "synthetic", "features": 6, "samples": 80, "classes": 3}, "batch_size": 4},
        trace={"checkpoint_every": 20, "flush_every": 20, "connect": {"learning.update": "hold.py:hold"}},
    )
    (folder / "tiny.toml").write_text(tomli_w.dumps(table))
    (folder / "hold.py").write_text(HOOK)
    (folder / "study.toml").write_text(STUDY)


def held(folder: Path) -> set[int]:
    """Processes that wait, or have waited."""
    return {int(path.name.removeprefix("held-")) for path in folder.glob("held-*")}


def ends(folder: Path) -> int:
    """How often a run was run to its end."""
    path = folder / "ends"
    return len(path.read_text().splitlines()) if path.exists() else 0
