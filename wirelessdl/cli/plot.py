"""`wirelessdl plot`."""

from pathlib import Path
from typing import Literal

import click

from wirelessdl.cli.reading import reads_runs

_FIGURES = ("accuracy", "privacy", "tradeoff", "power", "map", "timeline", "channel", "partition")


@click.command(epilog="Example: wirelessdl plot outputs/urban_er_k20-s7-r* --figure accuracy --format pdf")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--figure", required=True, type=click.Choice(_FIGURES), help="Figure to draw.")
@click.option("--format", "kind", default="pdf", type=click.Choice(["pdf", "png", "svg"]), help="File format.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write; default: FIGURE.FORMAT in the working folder."
)
@click.option(
    "--against",
    default="round",
    type=click.Choice(["round", "time", "energy"]),
    help="accuracy, privacy: quantity of the horizontal axis.",
)
@click.option("--round", "round_", type=click.IntRange(min=1), help="map: the round; timeline: the first round.")
@click.option("--rounds", default=4, type=click.IntRange(1, 200), help="timeline: number of rounds.")
@click.option("--link", "links", multiple=True, metavar="TX-RX", help="channel: a link; repeatable.")
@reads_runs
def command(
    runs: tuple[Path, ...],
    figure: str,
    kind: str,
    out: Path | None,
    against: Literal["round", "time", "energy"],
    round_: int | None,
    rounds: int,
    links: tuple[str, ...],
) -> None:
    """Draw a figure of one RUN or several, one IEEE column wide, fonts embedded.

    Runs of one scenario (equal but for seed and run) become their mean with its 95% band; each scenario gets a curve
    of its own. map, timeline, channel and partition show one run.
    """
    from wirelessdl.analysis.figures import Choice, draw
    from wirelessdl.analysis.runs import open_runs

    path = out if out is not None else Path(f"{figure}.{kind}")
    opened = open_runs(runs, same_nodes=figure == "power")
    draw(figure, opened, Choice(against, round_, rounds, [_link(text) for text in links]), path)
    click.echo(f"figure in {path}")


def _link(text: str) -> tuple[int, int]:
    tx, dash, rx = text.partition("-")
    if not (dash and tx.isdecimal() and rx.isdecimal()):
        raise click.UsageError(f"--link is {text!r}; must be sender and receiver, such as 0-3")
    return int(tx), int(rx)
