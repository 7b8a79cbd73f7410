"""The learner of a run that is over: data and model as they were, for its models to be evaluated."""

from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

import numpy as np

from wirelessdl.learning.evaluation import RunLearner
from wirelessdl.learning.runtime import own_settings
from wirelessdl.run.build_learning import build_learning
from wirelessdl.run.registry import Builder
from wirelessdl.run.world import World
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.objects import Given
from wirelessdl.streams import Streams
from wirelessdl.trace.run import Run


@own_settings()
def learner_of(run: Run, objects: Mapping[str, Given], device: str = "auto") -> RunLearner:
    """Data set and model of a run, without network, channel or time. objects: what names in its scenario stand for."""
    home = Path(run.provenance.get("folder", "") or run.path)
    scenario = parse_scenario(run.scenario, origin=f"{run.path}/scenario.toml", folder=str(home), objects=objects)
    builder = Builder(scenario, (home, home.parent), run.path)
    streams = Streams(scenario.scenario.seed, scenario.scenario.run)
    built = build_learning(builder, streams, device, links=0)
    return RunLearner(built.learning, built.data)


def values_given(world: World) -> dict[str, list[float]]:
    """Numbers by which parts of learning that Python handed in are known again, by key, before the first round.

    The way to a checkpoint asks every part of network, channel and time once more; it asks nothing of learning.
    """
    data, engine = world.data, world.learning
    every = [array[:: 1 + len(array) // 1000] for array in (data.train_x, data.train_y, data.test_x, data.test_y)]
    found = {}
    for key in world.objects:
        if key in ("learning.dataset", "learning.features"):
            found[key] = [float(crc32(b"".join(array.tobytes() for array in every)))]
        elif key == "learning.learning_rate":
            last = min(100, world.scenario.scenario.rounds)
            found[key] = [float(world.schedule.rate(round)) for round in range(1, last + 1)]
        elif key == "learning.model":
            nodes = {} if engine.remembered is None else {"nodes": range(1)}
            scores = engine.scores(0, engine.held[:1], engine.ready(data.test_x[:4]), **nodes)
            found[key] = np.ravel(scores.cpu().numpy()).astype(float).tolist()[:100]
    return found
