"""`wirelessdl channel`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from wirelessdl.channel.los import LOS, NLOSV
from wirelessdl.cli.options import PATH, OutputFile, all_overrides, say_user_code, scenario_options
from wirelessdl.cli.output import json_alone
from wirelessdl.cli.progress import frames_bar
from wirelessdl.errors import ScenarioError, shown

if TYPE_CHECKING:
    from wirelessdl.preview.channel import ChannelPreview, LinkFacts
    from wirelessdl.preview.frequency import FrequencyPreview
    from wirelessdl.run.build import World

_SHOWN = 3  # links of either end of the list


@click.command(
    epilog="Example: wirelessdl channel scenarios/urban_er_k20.toml --figure gains.pdf --export gains.parquet"
)
@scenario_options()
@click.option("--links", "chosen", metavar="TX-RX,...", help="Links in the figure (default: best, median, worst).")
@click.option(
    "--figure",
    type=PATH,
    help="Draw a map, gains over time and frequency, and fading statistics into this file (.pdf, .png, .svg).",
)
@click.option("--export", type=PATH, help="Write |h| of every slot for the model `replay` (.parquet, .npz).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(
    scenario: str,
    baseline: str | None,
    overrides: tuple[str, ...],
    seed: int | None,
    run_number: int | None,
    rounds: int | None,
    chosen: str | None,
    figure: Path | None,
    export: Path | None,
    as_json: bool,
) -> None:
    """Print link statistics of SCENARIO over all frames, from the same gains as the run will have. Trains nothing."""
    from wirelessdl.preview.channel import link_facts, preview_channel
    from wirelessdl.preview.frequency import preview_frequency
    from wirelessdl.run.build import build
    from wirelessdl.scenario.loader import load_scenario

    if export is not None and export.suffix not in (".parquet", ".npz"):
        raise click.UsageError(f"--export is {export}; must end in .parquet or .npz")
    drawn, exported = (None if path is None else OutputFile(path) for path in (figure, export))
    loaded = load_scenario(scenario, overrides=all_overrides(overrides, seed, run_number, rounds), baseline=baseline)
    if loaded.silent:
        raise ScenarioError(f"{loaded.origin}: has no links, for nothing is sent; there is no channel to show")
    say_user_code(loaded)
    written = [file for file in (drawn, exported) if file is not None]
    for file in written:
        file.require_unread(loaded)
    with json_alone(as_json):
        world = build(loaded, device="cpu")
        for file in written:
            file.require_unread(loaded, world.user_files)
        with frames_bar(loaded.scenario.rounds, quiet=as_json) as advance:
            found = preview_channel(world, advance)
        facts = link_facts(world, found)
        wanted, band = _chosen(chosen, facts), preview_frequency(world, found)
        if drawn is not None:
            from wirelessdl.preview.channel import preview_fading
            from wirelessdl.preview.channel_figure import draw_channel

            fading = preview_fading(world, found)
            draw_channel(found, facts, fading, wanted, loaded.scenario.name, drawn.path, band)
    if exported is not None:
        _export(found, exported.path)
    if as_json:
        from wirelessdl.trace.files import figures_text

        click.echo(figures_text(_facts(world, found, facts, band), indent=2))
        return
    console = Console(highlight=False)
    console.print(f"[bold]{loaded.scenario.name}[/]")
    console.print(_summary(world, found, facts, band))
    console.print()
    console.print(_table(facts))
    if figure is not None:
        console.print(f"figure in {figure}", soft_wrap=True)
    if export is not None:
        console.print(f'gains in {export}: {{ model = "replay", file = "{export}" }}', soft_wrap=True)


def _chosen(text: str | None, facts: "LinkFacts") -> list[tuple[int, int]]:
    """Links to draw, as (tx, rx)."""
    there = set(zip(facts.tx.tolist(), facts.rx.tolist()))
    if not there:
        return []
    if text is None:
        order = np.argsort(-facts.gain_db)
        picked = dict.fromkeys(int(order[n]) for n in (0, len(order) // 2, len(order) - 1))
        return [(int(facts.tx[n]), int(facts.rx[n])) for n in picked]
    links = []
    for word in text.split(","):
        tx, _, rx = word.strip().partition("-")
        if not (tx.isdecimal() and rx.isdecimal() and max(len(tx), len(rx)) < 10):
            raise click.UsageError(f"--links has {shown(word)!r}; must be like 0-1,4-2 (sender-receiver)")
        if (int(tx), int(rx)) not in there:
            raise click.UsageError(f"--links has {word!r}; there is no such link in this network")
        links.append((int(tx), int(rx)))
    return links


def _export(found: "ChannelPreview", path: Path) -> None:
    from wirelessdl.channel.replay import write
    from wirelessdl.trace.files import write_whole

    write_whole(path, lambda handle: write(handle, path.suffix, *found.heard()))


def _facts(
    world: "World", found: "ChannelPreview", facts: "LinkFacts", band: "FrequencyPreview | None"
) -> dict[str, Any]:
    from wirelessdl.units import to_s

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
        "payload_s": to_s(world.frame.slots * world.frame.payload_ns),
        "payload_slots": world.frame.slots,
        "frequency": None if band is None else _band_facts(band),
        "connectivity": None if found.connectivity is None else asdict(found.connectivity),
        "warnings": world.channel.warnings,
        "links": [dict(zip(columns, row)) for row in rows],
    }


def _band_facts(band: "FrequencyPreview") -> dict[str, Any]:
    return {
        "subbands": len(band.offset_hz),
        "subband_hz": band.subband_hz,
        "delay_spread_s": band.delay_spread_s,
        "coherence_bandwidth_hz": band.coherence_hz,
        "coherence_bandwidth_theory_hz": band.coherence_theory_hz,
        "weakest_subband_db": band.weakest_db.tolist(),
    }


def _band(band: "FrequencyPreview") -> str:
    """Subbands against coherence bandwidth, in words."""
    count = len(band.offset_hz)
    words = [f"{count} subband{'s' * (count > 1)} of {band.subband_hz / 1e6:.4g} MHz"]
    if band.delay_spread_s is not None:
        words.append(f"delay spread {band.delay_spread_s * 1e9:.4g} ns")
    if band.coherence_hz is not None:
        theory = band.coherence_theory_hz
        beside = "" if theory is None else f", {theory / 1e6:.3g} MHz by theory"
        words.append(f"coherence bandwidth {band.coherence_hz / 1e6:.3g} MHz drawn{beside} (|R| = 0.5)")
    return "; ".join(words)


def _summary(world: "World", found: "ChannelPreview", facts: "LinkFacts", band: "FrequencyPreview | None") -> Table:
    from wirelessdl.preview.describe import coherence

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    chain = " + ".join(part.name for part in world.scenario.channel.models)
    table.add_row("channel", f"{chain} at {world.scenario.channel.frequency_hz / 1e9:g} GHz")
    table.add_row("frames", f"{len(found.time_s)}, from {found.time_s[0]:.4g} to {found.time_s[-1]:.4g} s")
    table.add_row("links", f"{len(facts.tx)}{_sight(world, found)}")
    table.add_row("distance", _spread(facts.distance_m, "m"))
    table.add_row("mean gain", _spread(facts.gain_db, "dB"))
    table.add_row("SNR at full power", _spread(facts.snr_db, "dB"))
    table.add_row("SINR at full power", _spread(facts.sinr_db, "dB"))
    table.add_row("deepest fade", _spread(facts.deepest_db, "dB against the mean"))
    table.add_row("in time", coherence(world))
    if band is not None:
        table.add_row("in frequency", _band(band))
        if len(band.offset_hz) > 1:
            table.add_row("weakest subband", _spread(band.weakest_db, "dB against the mean, first frame"))
    if found.connectivity is not None:
        table.add_row("graph", str(found.connectivity))
    for warning in world.channel.warnings:
        table.add_row("warning", warning)
    return table


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
    order = np.argsort(-facts.gain_db)
    shown = [*order[:_SHOWN], None, *order[-_SHOWN:]] if len(order) > 2 * _SHOWN + 1 else list(order)
    table = Table(box=None, pad_edge=False)
    for name in ("tx", "rx", "distance m", "mean gain dB", "deepest fade dB", "SNR dB", "SINR dB", "frames"):
        table.add_column(name, justify="right")
    for n in shown:
        if n is None:
            table.add_row("...")
            continue
        numbers = (facts.distance_m, facts.gain_db, facts.deepest_db, facts.snr_db, facts.sinr_db)
        figures = (f"{values[n]:.1f}" for values in numbers)
        table.add_row(str(facts.tx[n]), str(facts.rx[n]), *figures, str(facts.frames[n]))
    return table
