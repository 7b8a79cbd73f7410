"""Carries out a run: directory, lock, checkpoints, normal and abnormal ends, resumption."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.errors import RunInterrupted, TraceError, WirelessdlError, require_name
from wirelessdl.learning.evaluation import layout_of
from wirelessdl.learning.runtime import own_settings, threads
from wirelessdl.privacy.terms import Proven
from wirelessdl.round.engine import Hooks, KeptState
from wirelessdl.round.records import Progress, RoundRecord
from wirelessdl.run.build import World, build, values_given
from wirelessdl.run.recorder import client_columns, progress
from wirelessdl.run.resume import (
    Resumption,
    complete_finished,
    extension_warning,
    extensions,
    require_as_it_was,
    require_writable,
    resumption,
    sound_checkpoint,
)
from wirelessdl.run.summary import Plateau, StoppingRuleMet, forecast, forecast_input, summarise
from wirelessdl.run.warnings import object_warnings, scenario_warnings
from wirelessdl.run.wiring import make_engine, make_recorder
from wirelessdl.scenario.objects import UserPart
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.checkpoint import Checkpoint, discard_checkpoints, load_checkpoints, save_checkpoint
from wirelessdl.trace.events import Listener, connect_log, parse_log, wants_wandb
from wirelessdl.trace.files import RunLock, StablePath
from wirelessdl.trace.provenance import handed_in, now, provenance
from wirelessdl.trace.run import Run, open_run
from wirelessdl.trace.sink import RunWriter, create_run_folder


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out, none of which changes its results at equal device.

    on_round hears the number of every finished round, on_evaluation where the run stands. When should_stop says so,
    the run stops after the round with its state kept and raises RunInterrupted. connect: functions that trace events
    call, `{"phy.rx": function}`; log: as `--log`, "sim=debug,channel=info".
    """

    device: str = "auto"
    on_round: Callable[[int], None] | None = None
    on_evaluation: Callable[[Progress], None] | None = None
    should_stop: Callable[[], bool] | None = None
    connect: Mapping[str, Listener] | None = None
    log: str = ""


_DEFAULTS = RunOptions()


@own_settings()
def simulate(
    scenario: Scenario,
    options: RunOptions = _DEFAULTS,
    *,
    out: str | Path = "outputs",
    name: str = "",
    **given: Any,
) -> Run:
    """Run a scenario into a new directory under `out`, named `name`, else by scenario, seed and run.

    given: fields of `RunOptions` by name, in place of those of options.
    """
    options = replace(options, **given)
    # named before the user's code runs, which may change the working folder
    parent, home = StablePath(Path(out)), StablePath(Path(scenario.folder)).absolute
    for path in (out, home if scenario.folder else ""):  # both are written down, and gone on with
        require_name(path, TraceError)
    world = build(scenario, device=options.device)
    section = scenario.scenario
    name = name or f"{section.name}-s{section.seed}-r{section.run}"
    session = _Session(world, options, home)
    with ExitStack() as held:

        def open_folder() -> Path:
            folder = create_run_folder(parent.path, name, session.prepare)
            held.enter_context(RunLock(folder))
            return folder

        session.run(open_folder)
    return session.result()


@own_settings()
def resume(
    path: str | Path,
    options: RunOptions = _DEFAULTS,
    *,
    rounds: int | None = None,
    scenario: Scenario | None = None,
    overrides: Overrides = (),
    parts: Mapping[str, Any] | None = None,
    objects: Mapping[str, UserPart] | None = None,
    force: bool = False,
    **given: Any,
) -> Run:
    """Go on with a run from its newest checkpoint, to tables that an uninterrupted run would have written.

    rounds extends it. scenario and overrides, where given, must leave it the run it was: a change that
    could alter results is refused; force lets those pass that only touch tracing or reproducibility. A
    finished run is returned as it is. parts: objects that it was started with and that its directory cannot make
    again, by what a part is called; objects: the same by the names that stand for them in its scenario. given: as in
    `simulate`.
    """
    options = replace(options, **given)

    def look() -> Resumption:
        return resumption(path, scenario=scenario, overrides=overrides, rounds=rounds, parts=parts, objects=objects)

    going = look()
    if not going.finished:
        require_writable(going.run.path)
        with RunLock(going.run.path):  # to the end, so that what is looked at is what is gone on with
            going = look()  # another process may have gone on with it before the lock was taken
            if not going.finished:
                return _go_on(going, options, force=force)
    complete_finished(going.run)
    return going.run


def _go_on(going: Resumption, options: RunOptions, *, force: bool) -> Run:
    """Run what is left of a run whose lock is held."""
    place, home = StablePath(going.run.path), StablePath(going.home).absolute
    candidates = [checkpoint.state() for checkpoint in load_checkpoints(place.path)]
    world = build(going.scenario, device=options.device, extra_folders=(home, home.parent), run=place.absolute)
    session = _Session(world, options, home)
    folder = place.path
    run = open_run(folder)
    kept, rounds = sound_checkpoint(folder, candidates, session.engine.unsound), going.scenario.scenario.rounds
    require_as_it_was(
        run, kept, world.resolved, session.origin, session.clients, spans_run=world.spans_run, force=force
    )
    session.extended = extensions(run, kept, rounds)
    before = run.provenance
    for key in ("started", "command", "folder"):  # where the run comes from does not change
        session.origin[key] = before.get(key, session.origin[key])
    session.run(lambda: place.path, kept, resumed=[*before.get("resumed", []), now()])
    return session.result()


class _Session:
    """One process's share of a run."""

    def __init__(self, world: World, options: RunOptions, home: Path):
        self.scenario, self._resolved, self._user_files = world.scenario, world.resolved, world.user_files
        self.options = options
        self.started, self.earlier_s = time.perf_counter(), 0.0
        self.origin = provenance(
            device=str(world.learning.device),
            threads=threads(),
            strategy=world.learning.strategy.name,
            user_files={file.name: file.sha256 for file in world.user_files},
            folder=str(home) if world.scenario.folder else "",
        )
        said, self._sources = handed_in(world.objects, options.connect or {})
        self.origin |= said
        if world.outlines_m:
            self.origin["outlines_m"] = [
                corners.round(2).tolist() for corners in world.outlines_m
            ]  # for maps of the run
        for key, values in values_given(world).items():
            self.origin["objects"][key]["values"] = values
        self.recorder = make_recorder(world)
        self.engine = make_engine(world, self.recorder, Hooks(self._start, self._recorded))
        self._simulation = world.simulation
        learning = world.scenario.learning
        self._plateau = Plateau(learning.stop_after, learning.stop_within, learning.stop_rule)
        self._stopped: int | None = None
        self._evaluated_round = 0
        self.extended: list[int] = []  # rounds declared before, where the run was extended
        for source, listener in (options.connect or {}).items():
            self.engine.trace.connect(source, listener)
        connect_log(self.engine.trace, parse_log(options.log))
        self._wandb = None
        if wants_wandb(options.log):
            from wirelessdl.trace.events import WandbLog

            self._wandb = WandbLog()
            self.recorder.on_rounds = self._wandb.rounds
        self._saved_round, self._saved_at = 0, time.monotonic()
        # worked out while the world is at hand: it is not kept
        self._forecast_terms = forecast_input(world)
        self._link_rate = world.link_rate
        self._warnings, self._channel = [*scenario_warnings(world), *object_warnings(world)], world.channel
        self._layout = None if world.scenario.silent else layout_of(world.learning.learner)
        self.clients = client_columns(world.data, world.client_indices, world.exposure, world.power_w)

    @own_settings()  # once more: the user's files, which are loaded by now, may have set others
    def run(
        self, open_folder: Callable[[], Path], kept: Checkpoint | None = None, resumed: list[str] | None = None
    ) -> None:
        """Run to the end, leaving word of how it ended in the directory, whose lock is held once it is open."""
        self._open_folder, self._kept = open_folder, kept
        self.earlier_s = kept.facts.get("wall_s", 0.0) if kept is not None else 0.0
        if resumed:
            self.origin["resumed"] = resumed
        if self.extended:
            self.origin["extended"] = self.extended
            self._warnings.append(extension_warning(self.extended, self.scenario.scenario.rounds))
        self._opened = sound = False
        try:
            if kept is not None:
                self.engine.replay(KeptState(kept.round, kept.arrays, kept.facts["checksums"]))
            with suppress(StoppingRuleMet):
                self._simulation.run(self.scenario.scenario.rounds, self.engine, self.engine.node_state)
            self._finish("done")
            sound = True
        except (RunInterrupted, KeyboardInterrupt):
            self._finish("interrupted")
            sound = True
            raise
        except BaseException as error:
            self._fail(error)
            raise
        finally:  # a process that is forked later would have the locks of its threads, and not the threads
            self.engine.stages.learning.close()
            # nodes' processes refer to each other: models and samples would stay until garbage is collected
            vars(self.engine.stages.learning).clear()
            if self._wandb is not None:
                self._wandb.finish(sound=sound)

    def result(self) -> Run:
        return open_run(self.recorder.writer.folder)

    def prepare(self, folder: Path) -> None:
        """What a new run directory holds when it appears under its name."""
        writer = RunWriter(folder)
        writer.scenario(self._resolved.to_table())
        writer.provenance({**self.origin, "state": "running"})

    def _start(self) -> None:
        """The first frame is decided, so the scenario can run: now there is something to keep."""
        folder = self._open_folder()
        self.recorder.writer = writer = RunWriter(folder)
        self._opened = True
        if self._wandb is not None:
            self._wandb.begin(folder, self._resolved.to_table())
        self._saved_round = 0 if self._kept is None else self._kept.round
        discard_checkpoints(folder, after=self._saved_round)
        writer.discard_after(self._saved_round)
        rested = self._seen_before(folder)
        # what it is extended from is kept before the rounds that would hide it
        writer.provenance({**self.origin, "state": "running"})
        writer.scenario(self._resolved.to_table())
        writer.snapshot("clients", self.clients)
        for file in (*self._user_files, *self._sources):
            writer.user_file(file)
        if rested:  # it had come to rest when it was killed
            self._rest(self._saved_round)

    def _seen_before(self, folder: Path) -> bool:
        """Tell the stopping rule of evaluations before an interruption; whether training had come to rest by then."""
        before = open_run(folder, strict=False) if self._plateau.enabled and self._saved_round else None
        if before is None:
            return False
        rounds = before.rounds[before.rounds["round"] <= self._saved_round].dropna(subset="accuracy_mean")
        for accuracy in rounds["accuracy_mean"]:
            self._plateau.add(float(accuracy))
        return bool(self._plateau.reached and rounds["round"].iloc[-1] == self._saved_round)

    def _rest(self, round: int) -> None:
        self._stopped = round
        self._checkpoint(round, exact=True)
        raise StoppingRuleMet

    def _recorded(self, record: RoundRecord) -> None:
        """A round is over and its record kept: tell, evaluate, save, stop."""
        if record.result.evaluated:
            self._evaluated(progress(record, self.scenario.scenario.rounds, self.engine.stages.ledger.terms))
        self._after_round(record.decision.round)

    def _after_round(self, round: int) -> None:
        trace = self.scenario.trace
        if self.options.on_round is not None:
            self.options.on_round(round)
        stop = self.options.should_stop is not None and self.options.should_stop()
        waited_s = time.monotonic() - self._saved_at
        due = round - self._saved_round >= trace.checkpoint_every or waited_s >= 60 * trace.checkpoint_minutes
        last = round == self.scenario.scenario.rounds
        if self._plateau.reached and self._evaluated_round == round:
            if not last:
                self._rest(round)
            self._stopped = round  # met just in time: the rule stopped nothing, but it was met
        if stop or due or last:
            self._checkpoint(round)
        if stop and not last:
            raise RunInterrupted(str(self.recorder.writer.folder), round)

    def _evaluated(self, progress: Progress) -> None:
        self._plateau.add(progress.accuracy_mean)
        self._evaluated_round = progress.round
        if self.options.on_evaluation is not None:
            self.options.on_evaluation(progress)

    def _checkpoint(self, round: int, *, exact: bool = False) -> None:
        """Write what is buffered, then the state after it: parts never reach behind a checkpoint."""
        if round == self._saved_round and not exact:
            return
        self.recorder.flush()
        exact = exact or round == self.scenario.scenario.rounds
        self.recorder.privacy(self.engine.stages.ledger, exact=exact)
        facts = {
            "scenario": self._resolved.to_table(),
            "origin": self.origin,
            "checksums": self.engine.checksums(),
            "wall_s": self._wall_s(),
            "layout": self._layout,
        }
        save_checkpoint(self.recorder.writer.folder, Checkpoint(round, self.engine.state(), facts))
        self._saved_round, self._saved_at = round, time.monotonic()

    def _finish(self, state: str) -> None:
        if not self._opened:
            return  # stopped before there was anything to keep
        wall_s = self._wall_s()
        writer = self.recorder.writer
        if state == "done":
            warnings = [*self._warnings, *self._channel.warnings]
            figures = summarise(self.scenario, self.engine, open_run(writer.folder), wall_s, warnings)
            if self.scenario.trace.links == "auto":
                figures["link_rate"] = self._link_rate
            if self._plateau.enabled:
                views: tuple[Proven, ...] = ("own", "coalition") if figures["coalition"] else ("own",)
                at_most = {view: self._declared(view, figures[f"epsilon_{view}_total"]) for view in views}
                figures |= {"stopped": self._stopped, "epsilon_declared": at_most[figures["promised"]]}
                figures |= {f"epsilon_{view}_declared": value for view, value in at_most.items()}
            writer.summary(figures)
        writer.provenance({**self.origin, "state": state, "finished": now(), "wall_s": wall_s})
        writer.finish()

    def _declared(self, view: Proven, odometer: float) -> float:
        """Total of a view at the declared number of rounds; infinite where later plans could have been anything."""
        power, privacy, planner = self.scenario.power, self.scenario.privacy, self.engine.stages.planner
        budget = privacy.budget_total if view == privacy.promised else math.inf
        if self.scenario.silent:
            return 0.0
        if power.schedule == "adaptive" and (power.objective != "own-noise" or power.allocator.name != "lp"):
            return budget
        plan = planner.latest  # without what the mechanism adds: all its noise hides a sender in the promised view
        if planner.mechanism.coalition and view == "own":
            nodes = self.scenario.network.nodes
            plan = replace(plan, own_share=np.full(nodes, planner.mechanism.least_own(nodes)))
        return min(max(odometer, min(forecast(self._forecast_terms, plan, view).values())), budget)

    def _wall_s(self) -> float:
        """Seconds that all processes together spent on the run."""
        return self.earlier_s + time.perf_counter() - self.started

    def _fail(self, error: BaseException) -> None:
        """Keep what can be kept; the error itself is more important than one of these failing too."""
        if not self._opened:
            return
        try:
            self.recorder.flush()
            message = str(error) if isinstance(error, WirelessdlError) else repr(error)
            self.recorder.writer.provenance({**self.origin, "state": "failed", "error": message, "finished": now()})
        except WirelessdlError:
            pass
