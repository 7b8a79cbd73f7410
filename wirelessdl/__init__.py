"""wirelessdl: wireless co-simulation of private, over-the-air decentralized learning.

    run = wirelessdl.simulate("quickstart", overrides={"privacy.epsilon_max": 2}, channel=MyChannel(), out=None)
    run.plot("accuracy")
    run.learner().accuracy(run.final_models())

Names load on first use, so that the command line answers at once.
"""

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# Spinning OpenMP threads starve a shared machine; must be set before torch is imported.
_os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"

_HOMES = {
    "ContractError": "wirelessdl.errors",
    "DataError": "wirelessdl.errors",
    "Dataset": "wirelessdl.learning.data",
    "Geometry": "wirelessdl.links",
    "InfeasiblePowerError": "wirelessdl.errors",
    "Links": "wirelessdl.links",
    "PowerPlan": "wirelessdl.power.problem",
    "Run": "wirelessdl.api.run",
    "Scenario": "wirelessdl.scenario.schema",
    "ScenarioError": "wirelessdl.errors",
    "Streams": "wirelessdl.streams",
    "Study": "wirelessdl.api.study",
    "StudyError": "wirelessdl.errors",
    "TraceError": "wirelessdl.errors",
    "TrainingError": "wirelessdl.errors",
    "UnsoundError": "wirelessdl.errors",
    "WirelessdlError": "wirelessdl.errors",
    "load_scenario": "wirelessdl.scenario.loader",
    "open_run": "wirelessdl.api.run",
    "open_study": "wirelessdl.api.study",
    "resume": "wirelessdl.api.run",
    "simulate": "wirelessdl.api.run",
    "sweep": "wirelessdl.api.study",
}

__all__ = ["__version__", *_HOMES]

if _TYPE_CHECKING:
    from wirelessdl.api.run import Run as Run
    from wirelessdl.api.run import open_run as open_run
    from wirelessdl.api.run import resume as resume
    from wirelessdl.api.run import simulate as simulate
    from wirelessdl.api.study import Study as Study
    from wirelessdl.api.study import open_study as open_study
    from wirelessdl.api.study import sweep as sweep
    from wirelessdl.errors import ContractError as ContractError
    from wirelessdl.errors import DataError as DataError
    from wirelessdl.errors import InfeasiblePowerError as InfeasiblePowerError
    from wirelessdl.errors import ScenarioError as ScenarioError
    from wirelessdl.errors import StudyError as StudyError
    from wirelessdl.errors import TraceError as TraceError
    from wirelessdl.errors import TrainingError as TrainingError
    from wirelessdl.errors import UnsoundError as UnsoundError
    from wirelessdl.errors import WirelessdlError as WirelessdlError
    from wirelessdl.learning.data import Dataset as Dataset
    from wirelessdl.links import Geometry as Geometry
    from wirelessdl.links import Links as Links
    from wirelessdl.power.problem import PowerPlan as PowerPlan
    from wirelessdl.scenario.loader import load_scenario as load_scenario
    from wirelessdl.scenario.schema import Scenario as Scenario
    from wirelessdl.streams import Streams as Streams


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'wirelessdl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
