"""`wirelessdl.sweep` and `wirelessdl.open_study`: studies from Python, with parts as objects, and their figures.

study = wirelessdl.sweep("quickstart", vary={"privacy.epsilon_max": [0.5, 1, 2]}, seeds=3, jobs=2)
study.mean(by=["privacy.epsilon_max"], of="accuracy_mean")
"""

import multiprocessing
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wirelessdl.api.run import Run, open_run
from wirelessdl.arrays import USUAL_ERRORS
from wirelessdl.errors import StudyError, quote
from wirelessdl.scenario.objects import UserPart, named_objects
from wirelessdl.scenario.overrides import Overrides
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.study import Study as IndexedStudy
from wirelessdl.trace.study import inside
from wirelessdl.trace.study import open_study as open_index


class Study(IndexedStudy):
    """One study: `index`, `mean`, its runs, and figures with bands. A study of this session has its objects still."""

    _objects: Mapping[str, UserPart] = {}

    def _repr_html_(self) -> str:
        """Name, how many runs are finished, and the mean accuracy of every cell with its 95% interval."""
        index = self.index
        done = int((index["status"] == "finished").sum())
        head = f"<b>{escape(quote(self.manifest['name'], 100))}</b>: {done} of {len(index)} runs finished"
        place = f"<small>{escape(quote(self.path))}</small>"
        if not done or "accuracy_mean" not in index:
            return f"<div>{head}<br>{place}</div>"
        means = self.mean(by=["baseline", *self.varied])
        table = means.to_html(index=False, float_format="{:.4g}".format, na_rep="", border=0, max_rows=40)
        return f"<div>{head}<br>{place}</div>{table}"

    def runs(self) -> list[Run]:  # type: ignore[override]
        """The finished runs, opened, in the order of the index."""
        return [self.run(path) for path in self.finished["path"]]

    def run(self, path: str) -> Run:
        """The run at a path of the index."""
        run = open_run(inside(self.path, path))
        run._objects.update(self._objects)
        return run

    @np.errstate(**USUAL_ERRORS)
    def plot(
        self,
        x: str | None = None,
        y: str = "accuracy",
        *,
        series: str | None = None,
        style: str | None = None,
        facet: str | None = None,
        where: Sequence[str] = (),
        curves: Literal["round", "time", "energy", "nominal-energy", "airtime", "epsilon"] | None = None,
        logx: bool = False,
        labels: Mapping[str, str] | None = None,
        size: Literal["single", "double"] = "single",
    ) -> Any:
        """The figure of `wirelessdl plot` of a study, as matplotlib axes; `.figure` is the whole.

        Points are means over seeds and runs with their 95% intervals. curves: learning curves over this quantity
        instead, means with 95% bands. Short names work: accuracy is accuracy_mean, exponent the key that ends so.
        """
        import matplotlib

        matplotlib.get_backend()  # the session's own: figures are shown here, not only written
        from wirelessdl.analysis.families import Request
        from wirelessdl.analysis.figures.study import study_figure

        texts = [f"{name}={text}" for name, text in (labels or {}).items()]
        figure, _ = study_figure(self, Request(x, y, series, style, facet, where, curves, logx, texts, size))
        return figure.axes[0]


def open_study(path: str | Path) -> Study:
    """The study in a directory; one clear line where its manifest or index is not what `wirelessdl sweep` writes."""
    found = open_index(path)
    study = Study(found.path, found.manifest)
    study.__dict__["index"] = found.index  # read and checked already
    return study


@np.errstate(**USUAL_ERRORS)
def sweep(
    scenario: str | Path | Scenario | None = None,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
    runs: int | Sequence[int] | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    overrides: Overrides = (),
    baselines: Sequence[str] = (),
    local: bool = True,
    resume: str | Path | None = None,
    scheduler: str | None = None,
    threads: int | None = None,
    device: str = "auto",
    force: bool = False,
    **parts: Any,
) -> Study:
    """Run a scenario with every combination of the varied values, seeds and runs, and open the study.

    scenario: a file, a bundled name, a loaded scenario, or a study file. seeds, runs: how many, counted from the
    scenario's own, or which. vary: values by key, which may be parameters of an object (`channel.models.0.exponent`) or
    objects (`{"channel": [Street(2), Street(3)]}`). resume: the directory of a study to go on with, instead of a
    scenario. parts: objects in place of the scenario's parts, `channel=Street()`; with resume, those that
    the study was started with. Runs that fail are named in a warning and in the index; the others are there.
    In a script, call it under `if __name__ == "__main__":`, because worker processes import the script.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)  # a worker that imports a script without the guard: the driver says what is missing
    from wirelessdl.study import Listener
    from wirelessdl.study.engine import Options, plan_of, resume_in, start_in
    from wirelessdl.study.plan import spec_of

    options = Options(jobs, scheduler, threads, device, force)
    if resume is not None:
        if scenario is not None or vary:
            raise StudyError("resume goes on with a study as it was; leave scenario and vary out")
        objects = named_objects(parts)
        result = resume_in(Path(resume), options, Listener(), objects=objects)
    else:
        if scenario is None:
            raise StudyError("name a scenario, or a study to resume")
        spec = spec_of(scenario, vary or {}, seeds, runs, overrides, baselines, local, parts)
        plan = plan_of(spec, options, None if out is None else Path(out))
        objects = dict(plan.base.objects)
        result = start_in(Path(out or Path("outputs") / plan.name), plan, options, Listener())
    if result.errors:
        name, error = next(iter(result.errors.items()))
        warnings.warn(
            f"{len(result.errors)} runs failed, the first {name}: {error}; "
            f'wirelessdl.sweep(resume="{result.path}") tries them again',
            stacklevel=3,
        )
    study = open_study(result.path)
    study._objects = objects
    return study
