"""wirelessdl: wireless co-simulation of private, over-the-air decentralized learning.

    run = wirelessdl.simulate(wirelessdl.load_scenario("scenarios/quickstart.toml"))
    run.rounds.plot(x="time_s", y="accuracy_mean")

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
    "Geometry": "wirelessdl.links",
    "Links": "wirelessdl.links",
    "Run": "wirelessdl.trace.run",
    "Scenario": "wirelessdl.scenario.schema",
    "Streams": "wirelessdl.streams",
    "Study": "wirelessdl.trace.study",
    "WirelessdlError": "wirelessdl.errors",
    "load_scenario": "wirelessdl.scenario.loader",
    "open_run": "wirelessdl.trace.run",
    "open_study": "wirelessdl.trace.study",
    "resume": "wirelessdl.run.session",
    "simulate": "wirelessdl.run.session",
    "sweep": "wirelessdl.study.sweep",
}

__all__ = ["__version__", *_HOMES]

if _TYPE_CHECKING:
    from wirelessdl.errors import WirelessdlError as WirelessdlError
    from wirelessdl.links import Geometry as Geometry
    from wirelessdl.links import Links as Links
    from wirelessdl.run.session import resume as resume
    from wirelessdl.run.session import simulate as simulate
    from wirelessdl.scenario.loader import load_scenario as load_scenario
    from wirelessdl.scenario.schema import Scenario as Scenario
    from wirelessdl.streams import Streams as Streams
    from wirelessdl.study.sweep import sweep as sweep
    from wirelessdl.trace.run import Run as Run
    from wirelessdl.trace.run import open_run as open_run
    from wirelessdl.trace.study import Study as Study
    from wirelessdl.trace.study import open_study as open_study


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'wirelessdl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
