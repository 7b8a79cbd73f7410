"""A run or a study as a notebook shows it: a headline, and a small figure."""

import io
from html import escape

from matplotlib.figure import Figure  # without pyplot: nothing is left open, whatever the session's backend
from matplotlib.ticker import MaxNLocator, PercentFormatter

from wirelessdl.analysis.style import BLUE
from wirelessdl.errors import TraceError, quote
from wirelessdl.privacy.terms import adversary_in_short, protected
from wirelessdl.trace.catalog import ListedRun, run_status
from wirelessdl.trace.run import Run
from wirelessdl.trace.study import Study


def run_html(run: Run, place: str) -> str:
    """Scenario, state, accuracy, epsilon with its adversary, warnings; accuracy over rounds."""
    status = run_status(run.path)
    lines = [
        f"<b>{escape(status.scenario)}</b>: {escape(status.state)}, round {status.round} of {status.rounds}",
        _results(status),
        f"<small>{escape(quote(place))}</small>",
    ]
    lines += [f"<small>warning: {escape(quote(text, 400))}</small>" for text in run.summary.get("warnings", [])]
    if status.error:
        lines.append(f"<small>error: {escape(quote(status.error, 400))}</small>")
    return f"<div>{'<br>'.join(line for line in lines if line)}</div>{_curve(run)}"


def _results(status: ListedRun) -> str:
    words = [] if status.accuracy is None else [f"test accuracy {status.accuracy:.1%}"]
    if status.epsilon is not None:
        size = f"{'at most ' if status.bound else ''}{status.epsilon:.3g}"
        against = adversary_in_short(status.coalition, declared=status.declared)
        words.append(f"epsilon {size} for {protected(status.unit, status.adjacency)}, against {against}")
    return escape(", ".join(words))


def _curve(run: Run) -> str:
    """Accuracy over rounds, worst to best node shaded; nothing before the second evaluation."""
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


def study_html(study: Study) -> str:
    """Name, how many runs are finished, and the mean accuracy of every cell with its 95% interval."""
    index = study.index
    done = int((index["status"] == "finished").sum())
    head = f"<b>{escape(quote(study.manifest['name'], 100))}</b>: {done} of {len(index)} runs finished"
    place = f"<small>{escape(quote(study.path))}</small>"
    if not done or "accuracy_mean" not in index:
        return f"<div>{head}<br>{place}</div>"
    means = study.mean(by=["baseline", *study.varied])
    table = means.to_html(index=False, float_format="{:.4g}".format, na_rep="", border=0, max_rows=40)
    return f"<div>{head}<br>{place}</div>{table}"
