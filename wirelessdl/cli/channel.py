"""`wirelessdl channel`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table

from wirelessdl.channel.los import LOS, NLOSV
from wirelessdl.cli.options import (
    PATH,
    OutputFile,
    ScenarioChoice,
    counted,
    echo_json,
    facts_table,
    json_alone,
    parse_link,
    plain_table,
    scenario_options,
    wide_console,
)
from wirelessdl.cli.progress import frames_bar, starting
from wirelessdl.errors import ScenarioError

if TYPE_CHECKING:
    from wirelessdl.preview.channel import ChannelPreview, FadingFacts, FrequencyPreview, LinkFacts
    from wirelessdl.run.build import World

_MAX_LINKS_PER_END = 3  # links of either end of the list


@click.command(
    epilog="Example: wirelessdl channel scenarios/urban_er_k20.toml --figure gains.pdf --export gains.parquet"
)
@scenario_options()
@click.option("--links", metavar="TX-RX,...", help="Links in the figure (default: best, median, worst).")
@click.option(
    "--figure",
    type=PATH,
    help="Draw a map, and gains over time and frequency, into this file (.pdf, .png, .svg).",
)
@click.option(
    "--export",
    type=PATH,
    help="Write |h| of every slot for the model `replay` (.parquet, .npz), or motion for ns-3 (.tcl).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(chosen: ScenarioChoice, links: str | None, figure: Path | None, export: Path | None, as_json: bool) -> None:
    """Print link statistics of SCENARIO over all frames, from the same gains as the run will have. Trains nothing."""
    if export is not None and export.suffix not in (".parquet", ".npz", ".tcl"):
        raise click.UsageError(f"--export is {export}; must end in .parquet, .npz or .tcl")
    loaded = chosen.load()
    if loaded.alone:
        raise ScenarioError(f"{loaded.origin}: has no links, for nothing is sent; there is no channel to show")
    drawn, exported = (None if path is None else OutputFile(path, loaded) for path in (figure, export))
    with json_alone(as_json):
        with starting():
            from wirelessdl.preview.channel import link_facts, preview_channel, preview_frequency
            from wirelessdl.run.build import build

            world = build(loaded, device="cpu")
        with frames_bar(loaded.scenario.rounds, quiet=as_json) as advance:
            found = preview_channel(world, advance)
        facts, band = link_facts(world, found), preview_frequency(world, found)
        picked = _picked(links, facts)
        if drawn is not None:
            from wirelessdl.preview.figures import draw_channel

            draw_channel(found, facts, picked, loaded.scenario.name, drawn.path, band)
    if exported is not None:
        from wirelessdl.channel.replay import write
        from wirelessdl.network.mobility.waypoint_files import write_ns2
        from wirelessdl.trace.files import write_whole

        path = exported.path
        if path.suffix == ".tcl":
            places = np.stack([frame.links.geometry.position_m for frame in found.frames])
            write_whole(path, lambda handle: write_ns2(handle, found.time_s, places))
        else:
            write_whole(path, lambda handle: write(handle, path.suffix, *found.heard()))
    if as_json:
        echo_json(_facts(world, found, facts, band))
        return
    console = wide_console()
    console.print(f"[bold]{loaded.scenario.name}[/]")
    console.print(facts_table(_summary(world, found, facts, band)))
    console.print()
    console.print(_table(facts))
    if figure is not None:
        console.print(f"figure in {figure}", soft_wrap=True)
    if export is not None:
        model = f'motion in {export}: {{ kind = "waypoints", file = "{export}" }}'
        if export.suffix != ".tcl":
            model = f'gains in {export}: {{ model = "replay", file = "{export}" }}'
        console.print(model, soft_wrap=True)


def _picked(text: str | None, facts: "LinkFacts") -> list[tuple[int, int]]:
    """Links to draw, as (tx, rx)."""
    there = list(zip(facts.tx.tolist(), facts.rx.tolist()))
    if not there:
        return []
    if text is None:
        order = np.argsort(-facts.gain_db).tolist()
        return [there[n] for n in dict.fromkeys((order[0], order[len(order) // 2], order[-1]))]
    links = [parse_link(word, "--links") for word in text.split(",")]
    for tx, rx in links:
        if (tx, rx) not in there:
            raise click.UsageError(f"--links has {tx}-{rx}; there is no such link in this network")
    return links


def _facts(
    world: "World", found: "ChannelPreview", facts: "LinkFacts", band: "FrequencyPreview | None"
) -> dict[str, Any]:
    from wirelessdl.preview.channel import fading_facts
    from wirelessdl.units import to_s

    fading = fading_facts(found)
    columns = ("tx", "rx", "frames", "distance_m", "gain_db", "deepest_db", "snr_db", "sinr_db")
    rows = zip(*(getattr(facts, name).tolist() for name in columns))
    return {
        "scenario": world.scenario.scenario.name,
        "frames": len(found.time_s),
        "from_s": float(found.time_s[0]),
        "to_s": float(found.time_s[-1]),
        "in_sight": float(np.mean(found.state == LOS)) if world.condition.matters else None,
        "behind_vehicles": float(np.mean(found.state == NLOSV)) if world.condition.matters else None,
        "coherence_s": world.coherence_s,
        "fading": None
        if fading is None
        else {
            "nakagami_m": fading.nakagami_m if np.isfinite(fading.nakagami_m) else None,
            "frame_correlation": fading.correlation,
        },
        "payload_s": to_s(world.frame.slots * world.frame.payload_ns),
        "payload_slots": world.frame.slots,
        "frequency": None
        if band is None
        else {
            "subbands": len(band.offset_hz),
            "subband_hz": band.subband_hz,
            "delay_spread_s": band.delay_spread_s,
            "weakest_subband_db": band.weakest_db.tolist(),
        },
        "connectivity": found.connectivity.formatted(),
        **({} if found.carry is None else {found.carry.title: dict(found.carry.facts)}),
        "warnings": world.channel.warnings,
        "links": [dict(zip(columns, row)) for row in rows],
    }


def _fading(fading: "FadingFacts") -> str:
    """Variation of power over frames, in words."""
    if fading.correlation is None:
        return "constant"
    return (
        f"as Nakagami with m = {fading.nakagami_m:.3g} (Rayleigh: 1); "
        f"correlation of frame to frame {fading.correlation:.2f}"
    )


def _band(band: "FrequencyPreview") -> str:
    """Subbands and delay spread, in words."""
    words = [f"{counted(len(band.offset_hz), 'subband')} of {band.subband_hz / 1e6:.4g} MHz"]
    if band.delay_spread_s is not None:
        words.append(f"delay spread {band.delay_spread_s * 1e9:.4g} ns")
    return "; ".join(words)


def _summary(
    world: "World", found: "ChannelPreview", facts: "LinkFacts", band: "FrequencyPreview | None"
) -> Iterator[tuple[str, str]]:
    from wirelessdl.preview import coherence
    from wirelessdl.preview.channel import fading_facts

    chain = " + ".join(part.name for part in world.scenario.channel.models)
    yield "channel", f"{chain} at {world.scenario.channel.frequency_hz / 1e9:g} GHz"
    yield "frames", f"{len(found.time_s)}, from {found.time_s[0]:.4g} to {found.time_s[-1]:.4g} s"
    yield "links", f"{len(facts.tx)}{_sight(world, found)}"
    yield "distance", _spread(facts.distance_m, "m")
    yield "mean gain", _spread(facts.gain_db, "dB")
    yield "SNR at full power", _spread(facts.snr_db, "dB")
    yield "SINR at full power", _spread(facts.sinr_db, "dB")
    yield "deepest fade", _spread(facts.deepest_db, "dB against the mean")
    yield "in time", coherence(world)
    if (fading := fading_facts(found)) is not None:
        yield "power in time", _fading(fading)
    if found.carry is not None:
        yield found.carry.title, found.carry.words
    if band is not None:
        yield "in frequency", _band(band)
        if len(band.offset_hz) > 1:
            yield "weakest subband", _spread(band.weakest_db, "dB against the mean, first frame")
    if (graph := found.connectivity.formatted()) is not None:
        yield "graph", graph
    for warning in world.channel.warnings:
        yield "warning", warning


def _sight(world: "World", found: "ChannelPreview") -> str:
    """In which states the links are, in words; nothing where all are in sight by definition."""
    if not world.condition.matters:
        return ""
    sight, vehicles = np.mean(found.state == LOS), np.mean(found.state == NLOSV)
    behind = f", {vehicles:.0%} behind a vehicle" if vehicles else ""
    corner = f", {1 - sight - vehicles:.0%} around a corner" if world.scenario.network.map.name != "none" else ""
    return f"; at the start {sight:.0%} in line of sight{behind}{corner}"


def _spread(values: Any, unit: str) -> str:
    if not len(values):
        return "no links"
    low, middle, high = np.min(values), np.median(values), np.max(values)
    return f"{low:.1f} to {high:.1f}, median {middle:.1f} {unit}"


def _table(facts: "LinkFacts") -> Table:
    order = np.argsort(-facts.gain_db).tolist()
    listed = (
        [*order[:_MAX_LINKS_PER_END], None, *order[-_MAX_LINKS_PER_END:]]
        if len(order) > 2 * _MAX_LINKS_PER_END + 1
        else order
    )
    table = plain_table(("tx", "rx", "distance m", "mean gain dB", "deepest fade dB", "SNR dB", "SINR dB", "frames"))
    for n in listed:
        if n is None:
            table.add_row("...")
            continue
        numbers = (facts.distance_m, facts.gain_db, facts.deepest_db, facts.snr_db, facts.sinr_db)
        figures = (f"{values[n]:.1f}" for values in numbers)
        table.add_row(str(facts.tx[n]), str(facts.rx[n]), *figures, str(facts.frames[n]))
    return table
