"""`wirelessdl plot`."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from wirelessdl.cli.options import PATH, one_study, parse_link, reads_runs

_FIGURES = ("accuracy", "privacy", "tradeoff", "power", "map", "timeline", "channel", "partition", "leakage")
_AGAINST = ("round", "time", "energy", "nominal-energy", "airtime", "epsilon")
# options of one kind of figure alone, as click names them
_OF_STUDIES = ("x", "y", "series", "dashes", "facet", "where", "logx", "labels", "size", "curves")
_OF_RUNS = ("figure", "round_", "links")


@click.command(
    epilog="Examples: wirelessdl plot outputs/urban_er_k20-s7-r* --figure accuracy --format pdf; "
    "wirelessdl plot outputs/tradeoff --x epsilon --y accuracy --series network.nodes --logx"
)
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="STUDY|RUN...")
@click.option("--figure", type=click.Choice(_FIGURES), help="Runs: figure to draw.")
@click.option("--format", "kind", default="pdf", type=click.Choice(["pdf", "png", "svg"]), help="File format.")
@click.option(
    "--style",
    default="plain",
    type=click.Choice(["ieee", "acm", "plain"]),
    help="Fonts and column width of a template: Times, Libertine (or the nearest that is installed), or sans serif.",
)
@click.option("--out", type=PATH, help="File to write; default: FIGURE.FORMAT in the working folder.")
@click.option(
    "--against",
    default="round",
    type=click.Choice(_AGAINST),
    help="accuracy, privacy, --curves: quantity of the horizontal axis; airtime and epsilon with --curves alone.",
)
@click.option("--round", "round_", type=click.IntRange(min=1), help="map: the round; timeline: the first round.")
@click.option("--rounds", default=4, type=click.IntRange(1, 200), help="timeline: number of rounds.")
@click.option(
    "--link", "links", multiple=True, metavar="TX-RX", help="channel, leakage: a link; repeatable for channel."
)
@click.option("--x", metavar="COLUMN", help="Study: horizontal axis; default: epsilon, else the first key varied.")
@click.option("--y", metavar="COLUMN", help="Study: vertical axis; default: accuracy.")
@click.option("--series", metavar="KEY", help="Study: key that colours stand for.")
@click.option("--dashes", metavar="KEY", help="Study: key that dashes stand for.")
@click.option("--facet", metavar="KEY", help="Study: key that panels stand for.")
@click.option("--where", multiple=True, metavar="KEY=VALUE", help="Study: only these runs; repeatable.")
@click.option("--curves", is_flag=True, help="Study: learning curves instead of results, see --against.")
@click.option("--logx", is_flag=True, help="Study: logarithmic horizontal axis.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=TEXT",
    help="Study: text of a column, a baseline or (NAME:VALUE=TEXT) of one value; repeatable.",
)
@click.option(
    "--size",
    type=click.Choice(["single", "double"]),
    help="Study: one column of a paper (3.5 in, the default) or two (7.16 in).",
)
@reads_runs
def command(
    runs: tuple[Path, ...], kind: str, style: str, out: Path | None, against: Any, rounds: int, **options: Any
) -> None:
    """Draw a figure for a paper, fonts embedded.

    Of a STUDY: the results of its cells, joined per series, with the 95% interval of the mean over runs; or learning
    curves. Its data (.csv) and the command (.sh) are written beside it. Short names work: accuracy is accuracy_mean.

    Of RUNs (--figure): runs of one scenario (equal but for seed and run) become their mean with its 95% band; each
    scenario gets a curve of its own. map, timeline, channel, partition and leakage show one run.
    """
    if one_study(runs):
        _refuse(_OF_RUNS, "is for runs; leave it out, or name runs of the study")
        _plot_study(runs[0], kind, style, out, against, options)
        return
    _refuse(_OF_STUDIES, "is for a study; name one, or leave it out")
    if options["figure"] is None:
        from wirelessdl.trace.run import require_run

        for run in runs:
            require_run(run)
        raise click.UsageError(f"--figure is missing; it must be one of {', '.join(_FIGURES)}")
    if against in ("airtime", "epsilon"):
        raise click.UsageError(f"--against {against} is for --curves of a study; take round, time or energy")
    from wirelessdl.analysis.figures import FigureOptions, draw
    from wirelessdl.analysis.runs import open_runs

    figure = options["figure"]
    path = out if out is not None else Path(f"{figure}.{kind}")
    opened = open_runs(runs, same_nodes=figure == "power")
    links = [parse_link(text, "--link") for text in options["links"]]
    draw(figure, opened, FigureOptions(against, options["round_"], rounds, links, style), path)
    click.echo(f"figure in {path}")


def _plot_study(
    folder: Path, kind: str, template: str, out: Path | None, against: str, options: dict[str, Any]
) -> None:
    from wirelessdl.analysis.families import Request
    from wirelessdl.analysis.figures.study import draw_study
    from wirelessdl.trace.study import open_study

    y, x, curves = options["y"] or "accuracy", options["x"], options["curves"]
    if curves and x is not None:
        raise click.UsageError(f"--x is {x}; with --curves the horizontal axis is --against {'|'.join(_AGAINST)}")
    over = against if curves else x or "epsilon"
    path = out if out is not None else Path(f"{y}-{over}{'-curves' if curves else ''}.{kind}".replace("/", "_"))
    keys = {name: options[name] for name in ("series", "facet", "where", "logx", "labels")}
    request = Request(
        x,
        y,
        style=options["dashes"],
        **keys,
        template=template,
        curves=against if curves else None,
        size=options["size"] or "single",
    )
    family = draw_study(open_study(folder), request, path, shlex.join(["wirelessdl", *sys.argv[1:]]))
    for note in family.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"figure in {path}, its data in {path.with_suffix('.csv')}, its command in {path.with_suffix('.sh')}")


def _refuse(names: tuple[str, ...], why: str) -> None:
    """Refuse the first of these options that was given."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}")
