"""Runs in Python: made and resumed, with parts as objects; their tables, models and figures.

run = wirelessdl.simulate("quickstart", out=None)
run.plot("accuracy")
learner, models = run.learner(), run.final_models()
learner.accuracy(models)
"""

import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from wirelessdl.arrays import USUAL_ERRORS
from wirelessdl.errors import RunInterrupted, ScenarioError, TraceError, nearest, quote
from wirelessdl.scenario.loader import load_scenario
from wirelessdl.scenario.objects import UserPart, named_objects
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.catalog import ListedRun, run_status
from wirelessdl.trace.checkpoint import load_checkpoints
from wirelessdl.trace.files import require_outside
from wirelessdl.trace.run import Run as TracedRun
from wirelessdl.trace.run import State, check_version, require_run, state_of

if TYPE_CHECKING:
    import pandas as pd

    from wirelessdl.learning.evaluation import RunLearner, StateDict
    from wirelessdl.round.records import Progress
    from wirelessdl.trace.events import Listener


class Keeper:
    """A temporary folder, removed with the last object that refers to this one, by the process that made it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wirelessdl-"))
        self.remove = weakref.finalize(self, _remove, self.folder, os.getpid())

    def __reduce__(self) -> NoReturn:
        raise TraceError("a run in memory goes away with its process; save it into a folder first: run.save(folder)")

    def __deepcopy__(self, _: dict[int, Any]) -> "Keeper":
        return self


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a process that was forked has the object, but not the folder
        shutil.rmtree(folder, ignore_errors=True)


class Run(TracedRun):
    """One run: frames as attributes (`rounds`, `nodes`, `links`, ...), its models, its figures.

    A run with `out=None` lies in a temporary directory that is removed with the last object that refers to it.
    """

    def __init__(
        self,
        path: Path,
        *,
        strict: bool = True,
        objects: Mapping[str, UserPart] | None = None,
        keeper: Keeper | None = None,
    ):
        super().__init__(path, strict=strict)
        self._objects, self._keeper = dict(objects or {}), keeper

    def __repr__(self) -> str:
        return f"Run({self.path.name!r}, in memory)" if self._keeper is not None else super().__repr__()

    def _repr_html_(self) -> str:
        """Scenario, state, accuracy, epsilon with its adversary, warnings; accuracy over rounds."""
        status = run_status(self.path)
        place = "in memory" if self._keeper is not None else str(self.path)
        lines = [
            f"<b>{escape(status.scenario)}</b>: {escape(status.state)}, round {status.round} of {status.rounds}",
            _results(status),
            f"<small>{escape(quote(place))}</small>",
        ]
        lines += [f"<small>warning: {escape(quote(text, 400))}</small>" for text in self.summary.get("warnings", [])]
        if status.error:
            lines.append(f"<small>error: {escape(quote(status.error, 400))}</small>")
        return f"<div>{'<br>'.join(line for line in lines if line)}</div>{_curve(self)}"

    @property
    def state(self) -> State:
        """running, done, interrupted or failed."""
        return state_of(self.path)

    def save(self, folder: str | Path) -> "Run":
        """A copy of the run directory, as `folder`; for runs in memory that turn out to be worth keeping."""
        target = Path(folder)
        try:
            if target.exists():
                raise TraceError(f"{quote(target)}: is there already; choose another folder")
            require_outside(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".wirelessdl-", dir=target.parent) as aside:
                copy = Path(aside) / "run"
                shutil.copytree(self.path, copy, ignore=shutil.ignore_patterns("lock"))
                copy.rename(target)  # whole or not at all
        except (OSError, ValueError) as error:
            raise TraceError(f"{quote(target)}: cannot be written: {quote(error)}") from None
        return Run(target, strict=self._strict, objects=self._objects)

    def final_models(self) -> "list[StateDict]":
        """The private release of each node after the last round: s, one state dict of tensors per node.

        s is what a node holds of the transmissions of the last round, its own with its noise included, after all
        mixing passes and before its own gradient step. It is a function of what was sent, so the epsilon of the run
        (`summary["epsilon_total"]`, against `summary["adversary"]`) covers it. The node's own next step, x, never
        leaves this method: no epsilon covers it. Under the paper's protocol accuracy is that of x, and differs from the
        accuracy of these models. A run in which nothing is sent has no release, and this raises. What is covered are
        these numbers alone: the run directory holds the seed of all noise.

        Names and shapes are those of the module's `state_dict`; built-in models fit `torch.nn.Linear` (softmax, ridge,
        logistic) or a `torch.nn.Sequential` (mlp).
        """
        rounds = self.summary.get("rounds")
        if rounds is None:
            raise TraceError(
                f"{quote(self.path)}: is {self.state}, not done; models(round) has those of its checkpoints: "
                f"{self._listed()}"
            )
        return self.models(rounds)

    def models(self, round: int) -> "list[StateDict]":
        """What `final_models` gives, after a round that one of the two newest checkpoints was written in."""
        from wirelessdl.learning.evaluation import state_dicts

        for checkpoint in load_checkpoints(self.path):
            if checkpoint.round != round:
                continue
            released = checkpoint.released
            if released is None:
                raise TraceError(
                    f"{quote(self.path)}: nothing is sent in this run, so there is no private release: its models are "
                    "those of the nodes' own data, which no epsilon covers"
                )
            return state_dicts(released, checkpoint.facts["layout"])
        raise TraceError(f"{quote(self.path)}: no checkpoint of round {quote(round)}; there are: {self._listed()}")

    def _listed(self) -> str:
        rounds = sorted(checkpoint.round for checkpoint in load_checkpoints(self.path))
        return ", ".join(map(str, rounds)) or "none"

    def learner(self, device: str = "auto", **parts: Any) -> "RunLearner":
        """Model and data set of the run, to evaluate its models: `run.learner().accuracy(run.final_models())`.

        parts: model, data set or features that its directory cannot make again, `model=Net`; a run of this session has
        them still. Executes the files of the user's own that the scenario names, as `resume` does: only for runs that
        you trust.
        """
        from wirelessdl.run.build_learning import learner_of

        return learner_of(self, {**self._objects, **named_objects(parts)}, device)

    def leakage(self, tx: int, rx: int | None = None) -> "pd.DataFrame":
        """What a node leaked over the rounds, to everyone together; with rx, also what single slots told that node.

        `wirelessdl/analysis/figures/__init__.py` has the columns; `run.plot("leakage", links=[(tx, rx)])` draws them.
        """
        from wirelessdl.analysis.figures import leakage

        return leakage(self, tx, rx)

    @np.errstate(**USUAL_ERRORS)
    def plot(
        self,
        figure: str = "accuracy",
        *,
        against: Literal["round", "time", "energy", "nominal-energy"] = "round",
        round: int | None = None,
        rounds: int = 4,
        links: Sequence[tuple[int, int]] = (),
    ) -> Any:
        """A figure of `wirelessdl plot`, as matplotlib axes; `.figure` is the whole.

        figure: accuracy, privacy, tradeoff, power, map, timeline, channel, leakage or partition. against: horizontal
        axis of the first two. round: of map, and the first of timeline; rounds: of timeline. links: (tx, rx) of channel
        and leakage.
        """
        import matplotlib

        matplotlib.get_backend()  # the session's own: figures are shown here, not only written
        from wirelessdl.analysis.figures import CURVES, SINGLE, FigureOptions, draw
        from wirelessdl.analysis.runs import require_rounds

        if figure not in (known := [*CURVES, *SINGLE]):
            raise TraceError(f"no figure {quote(figure)}{nearest(figure, known)}")
        require_rounds(self)
        return draw(figure, [self], FigureOptions(against, round, rounds, links), None).axes[0]


def open_run(path: str | Path, *, strict: bool = True) -> Run:
    """The run in a directory. `strict=False` reads what can be read of a damaged one, with warnings."""
    folder = require_run(path)
    run = Run(folder, strict=strict)
    if strict:
        check_version(folder, run.provenance)
    return run


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
    is_name = isinstance(name, str) and name != ".." and "\0" not in name and (not name or Path(name).name == name)
    if not (out is None or isinstance(out, str | Path)) or not is_name:
        raise TraceError(
            f"out is {quote(repr(out), 60)}, name {quote(repr(name), 60)}; out must be a folder, or None for a run in "
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
            raise ScenarioError(f"{key} is {quote(repr(value), 60)}; must be a text: leave it out for the default")


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
            f"scenario is {quote(repr(scenario), 60)}; must be a file, the name of a bundled scenario, or what "
            "load_scenario gives"
        )
    return scenario.replace(overrides, **parts) if overrides or parts else scenario


def _results(status: ListedRun) -> str:
    from wirelessdl.privacy.terms import adversary_in_short, protected

    words = [] if status.accuracy is None else [f"test accuracy {status.accuracy:.1%}"]
    if status.epsilon is not None:
        size = f"{'at most ' if status.bound else ''}{status.epsilon:.3g}"
        against = adversary_in_short(status.coalition, declared=status.declared)
        words.append(f"epsilon {size} for {protected(status.unit, status.adjacency)}, against {against}")
    return escape(", ".join(words))


def _curve(run: Run) -> str:
    """Accuracy over rounds, worst to best node shaded; nothing before the second evaluation."""
    from matplotlib.figure import Figure  # without pyplot: nothing is left open, whatever the session's backend
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    from wirelessdl.analysis.style import BLUE

    try:
        frame = run.evaluated
    except TraceError:
        return ""
    if len(frame) < 2:
        return ""
    figure = Figure(figsize=(3.2, 1.7), layout="constrained")
    axis = figure.add_subplot()
    axis.fill_between(frame["round"], frame["accuracy_min"], frame["accuracy_max"], color=BLUE, alpha=0.2, linewidth=0)
    axis.plot(frame["round"], frame["accuracy_mean"], color=BLUE, linewidth=1.2)
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.tick_params(labelsize=7)
    axis.set_xlabel("round", fontsize=7)
    axis.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]
