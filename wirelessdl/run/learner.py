"""The learner of a run that is over: data and model as they were, for its models to be evaluated."""

from collections.abc import Mapping
from pathlib import Path

from wirelessdl.learning.evaluation import RunLearner
from wirelessdl.learning.runtime import own_settings
from wirelessdl.run.build_learning import build_learning
from wirelessdl.run.registry import Builder
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
    return RunLearner(built.engine, built.data)
