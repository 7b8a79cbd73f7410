"""`wirelessdl.simulate` and `wirelessdl.resume`: runs from Python, with parts as objects."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirelessdl.api.run import Keeper, Run
from wirelessdl.errors import RunInterrupted, ScenarioError, TraceError, shown
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.files import require_outside

if TYPE_CHECKING:
    from wirelessdl.round.records import Progress
    from wirelessdl.trace.events import Listener


def simulate(
    scenario: Scenario | str | Path,
    *,
    out: str | Path | None = "outputs",
    name: str | None = "",
    overrides: Overrides = (),
    device: str = "auto",
    on_round: Callable[[int], None] | None = None,
    on_evaluation: "Callable[[Progress], None] | None" = None,
    should_stop: Callable[[], bool] | None = None,
    connect: "Mapping[str, Listener] | None" = None,
    log: str = "",
    **parts: Any,
) -> Run:
    """Run a scenario into a new directory under `out`, named `name`, else by scenario, seed and run.

    scenario: a loaded one, a file, or the name of a bundled one. out: None for a run in memory, which is gone with the
    object that is returned. overrides: as in `load_scenario`.
    parts: objects, classes or names in place of the scenario's parts: `channel=Street()`, `model=Net`; see
    `Scenario.replace`. An object is copied for the run; a class that can be imported is stored as its file.

    on_round hears the number of every finished round, on_evaluation where the run stands. When should_stop says so,
    the run stops after the round and is returned with its state kept: `run.state` is "interrupted", `resume(run)` goes
    on. connect: functions that trace events call, `{"phy.rx": function}`; log: as `--log`, "sim=debug,channel=info".
    """
    chosen = prepared(scenario, overrides, parts)
    from wirelessdl.run.session import RunOptions  # torch takes a second or two
    from wirelessdl.run.session import simulate as run_session

    _require_texts(device=device, log=log)
    name = "" if name is None else name
    if not (out is None or isinstance(out, str | Path)) or not _is_folder_name(name):
        raise TraceError(
            f"out is {shown(repr(out), 60)}, name {shown(repr(name), 60)}; out must be a folder, or None for a run in "
            "memory, and name the name of a folder in it"
        )
    if out is not None:
        require_outside(Path(out))
    keeper = Keeper() if out is None else None
    options = RunOptions(device, on_round, on_evaluation, should_stop, connect, log)
    try:
        path = _path(lambda: run_session(chosen, options, out=keeper.folder if keeper else out or "", name=name))
    except BaseException:
        if keeper is not None:
            keeper.remove()
        raise
    return Run(path, objects=chosen.objects, keeper=keeper)


def resume(
    run: str | Path | Run,
    *,
    rounds: int | None = None,
    scenario: Scenario | None = None,
    overrides: Overrides = (),
    device: str = "auto",
    force: bool = False,
    on_round: Callable[[int], None] | None = None,
    on_evaluation: "Callable[[Progress], None] | None" = None,
    should_stop: Callable[[], bool] | None = None,
    connect: "Mapping[str, Listener] | None" = None,
    log: str = "",
    **parts: Any,
) -> Run:
    """Go on with a run from its newest checkpoint, to tables that an uninterrupted run would have written.

    run: its directory, or the run itself. rounds extends it. scenario and overrides, where given, must leave it the run
    it was: a change that could alter results is refused; force lets those pass that only touch tracing or
    reproducibility. A finished run is returned as it is. parts: objects that the run was started with and that its
    directory cannot make again; a run that was returned in this session has them still. Everything else: `simulate`.
    """
    from wirelessdl.run.session import RunOptions
    from wirelessdl.run.session import resume as resume_session

    _require_texts(device=device, log=log)
    held = run if isinstance(run, Run) else None
    path = Path(run) if held is None else held.path  # type: ignore[arg-type]
    objects = {} if held is None else held._objects
    found = _path(
        lambda: resume_session(
            path,
            RunOptions(device, on_round, on_evaluation, should_stop, connect, log),
            rounds=rounds,
            scenario=scenario,
            overrides=overrides,
            parts=parts,
            objects=objects,
            force=force,
        )
    )
    return Run(found, objects=objects, keeper=None if held is None else held._keeper)


def _require_texts(**given: Any) -> None:
    for key, value in given.items():
        if not isinstance(value, str):
            raise ScenarioError(f"{key} is {shown(repr(value), 60)}; must be a text: leave it out for the default")


def _is_folder_name(name: Any) -> bool:
    """Whether a name is that of a folder in another, or empty."""
    return isinstance(name, str) and name != ".." and "\0" not in name and (not name or Path(name).name == name)


def _path(session: Callable[[], Any]) -> Path:
    """Where a session left its run, whether it was done or stopped when asked to."""
    try:
        return Path(session().path)
    except RunInterrupted as stopped:
        return Path(stopped.folder)


def prepared(scenario: Scenario | str | Path, overrides: Overrides, parts: Mapping[str, Any]) -> Scenario:
    """A scenario with overrides and parts, however it was named."""
    if isinstance(scenario, str | Path):
        scenario = load_scenario(scenario, overrides=overrides)
        overrides = ()
    if not isinstance(scenario, Scenario):
        raise ScenarioError(
            f"scenario is {shown(repr(scenario), 60)}; must be a file, the name of a bundled scenario, or what "
            "load_scenario gives"
        )
    return scenario.replace(overrides, **parts) if overrides or parts else scenario
