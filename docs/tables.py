"""Writes docs/scenarios.md and docs/traces.md from the schemas, and docs/cli.md from the commands.

    python docs/tables.py

A test compares the pages with what this script makes.
"""

import inspect
from pathlib import Path

import click
import pyarrow as pa
import tomli_w

from wirelessdl.cli.main import cli
from wirelessdl.contract import CAPABILITIES
from wirelessdl.run.registry import PARTS
from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.schema import TABLES, VERSION

SCENARIOS = """# Scenarios

This page lists every key of a scenario file. It is generated from the schema by `python docs/tables.py`.

A scenario is a TOML file with the sections below. Keys marked *needed* have no default. An unknown key is an error
that suggests the nearest name. `wirelessdl schema` prints the JSON Schema, with which an editor completes and checks
keys. Words are explained in the [glossary](glossary.md).

A part, such as a topology, is a table with its `kind` (for channels and models: `model`) and its parameters, or just
its name. `wirelessdl list` prints every kind with its parameters, `wirelessdl list channel.models` those of one key. A
part may be your own class: `"file.py:Class"`. The file is looked up in the working folder, the scenario's folder and
its parent, and is copied into the run. The parameters are checked against the signature of `__init__`.
"""

OWN_PARTS = """## Your own parts

Your own part is a class in a file, named `"file.py:Class"`. It needs no base class. It must have the method below;
a `learning.model` may be a `torch.nn.Module` instead. The simulator supplies the constructor arguments below if
`__init__` has arguments with these names; all others come from the scenario.

| key | method | supplied constructor arguments |
|---|---|---|
"""

CAPABILITY_TABLE = """
A part may also have capabilities: attributes or methods that the simulator uses if they exist. A capability of the
wrong type is an error that names the class.

| key | capability | type | default | meaning |
|---|---|---|---|---|
"""

TRACES = """# Traces

This page lists the files of a run directory and every column of its tables. The column tables are generated from the
schema by `python docs/tables.py`. Words are explained in the [glossary](glossary.md).

A run directory is never overwritten. A second run with the same name gets the suffix `-2`, the third `-3`, and so on.

```text
outputs/<scenario>-s<seed>-r<run>/
  scenario.toml      the complete scenario; running it again from its place gives the same tables
  provenance.json    versions, device, threads, git commit, command, hashes of your model files
  models/            copies of your model files, and lines of classes handed in from Python, named by SHA-256
  checksums.txt      SHA-256 of every file, as sha256sum writes it; `wirelessdl verify` checks it
  checkpoint/        the newest checkpoint and the one before; their private releases are `run.models(round)`
  lock               present while a process writes the run
  rounds/ nodes/ links/ events/     Parquet parts, each complete or absent
  blocks/            likewise, only with `trace.blocks`
  clients/ privacy/  one Parquet file each
  summary.json       final results; an infinite one is the number 1e999, an unknown one null
  report.html        written by `wirelessdl report`
```

`pd.read_parquet("outputs/<run>/rounds")` reads a table, also while the run is in progress.
`wirelessdl.open_run(path)` returns `.rounds`, `.nodes`, `.links`, `.blocks`, `.clients`, `.events` and `.privacy` as
pandas frames, and `.summary`, `.scenario` and `.provenance` as dictionaries.
`run.frame("links", ["tx", "rx", "gain"], rounds=(1, 50))` reads only these columns and rounds ([more](report.md)).
Unit and meaning of every column are also in the Arrow field metadata.

The tables have schema version VERSION. `open_run` refuses a run with another version in one line, which names the
version of wirelessdl that wrote it.
"""

ABOUT = {
    "rounds": "One row per round.",
    "nodes": "One row per node and round.",
    "links": "One row per link and round (see `trace.links`).",
    "blocks": (
        "One row per link, round, slot and subband of the payload; written only if `trace.blocks` is set, for the "
        "links and rounds of the links table ([wideband](wideband.md))."
    ),
    "clients": "One row per node: its data and how batches are drawn from it. Written once, at the start of the run.",
    "events": (
        "One row per event. Kinds: `frame` (a frame opens), `plan` (note of the power plan), `computed` (a node has "
        "finished its gradient), `late` (a node had not finished when a frame opened), `control` (its report of "
        "gains was lost, so it got no plan), `crash`, `rejoin`, `process` (what your process changed or says),"
        " `battery` (battery used up), `budget` "
        "(promised total used up; the node is silent from this round on), `violation` (links above epsilon_max), `hub` "
        "(a turn of a hub opens: which turn of the frame, its members, and whether the hub fails after collecting)."
    ),
    "privacy": (
        "Totals over the run. One row per sender with its own noise alone (view `own`, status `proven`, rx null), with "
        "pairwise noise another one against coalitions (view `coalition`, status `proven`), and without pairwise noise "
        "and passes one row per link for the paper's sum over rounds (view `link`, status `unproven`). While the run "
        "is in progress, only the rows per sender are present, with a fast upper bound."
    ),
}

CLI = """# Commands

This page lists every command with its options. It is generated from the command line by `python docs/tables.py`.
`wirelessdl COMMAND --help` prints the same. A mistake in the input is one line and exit code 2; a bug shows a
traceback.

## Completion

A line in `~/.bashrc` makes the Tab key complete commands, options, scenarios, baselines, keys of `--set` and `--vary`,
and names that `wirelessdl list` takes:

```bash
eval "$(_WIRELESSDL_COMPLETE=bash_source wirelessdl)"
```

For zsh it is `zsh_source`, in `~/.zshrc`; for fish, `_WIRELESSDL_COMPLETE=fish_source wirelessdl | source`. The
environment must be active: the shell asks `wirelessdl` itself.

## wirelessdl
"""


def scenarios_page() -> str:
    lines = [SCENARIOS]
    for name, field in Scenario.model_fields.items():
        section = field.annotation
        lines.append(f"## [{name}]\n\n{section.__doc__}\n\n| key | default | meaning |\n|---|---|---|")
        for key, entry in section.model_fields.items():
            default = "*needed*" if entry.is_required() else f"`{_toml(entry.default)}`"
            lines.append(f"| `{key}` | {default} | {_cell(entry.description)} |")
        lines.append("")
    return "\n".join(lines) + "\n" + _own_parts()


def _own_parts() -> str:
    parts = [
        f"| `{key}` | `{kind.call}` | {', '.join(f'`{name}`' for name in kind.supplied)} |"
        for key, kind in PARTS.items()
    ]
    optional = [
        f"| `{one.part}` | `{one.name}` | {one.kind.words} | `{one.default}` | {_cell(one.meaning)} |"
        for one in CAPABILITIES.values()
    ]
    return OWN_PARTS + "\n".join(parts) + "\n" + CAPABILITY_TABLE + "\n".join(optional) + "\n"


def traces_page() -> str:
    lines = [TRACES.replace("VERSION", str(VERSION))]
    for name, schema in TABLES.items():
        lines.append(f"## {name}\n\n{ABOUT[name]}\n\n| column | unit | meaning |\n|---|---|---|")
        lines += [_column(field) for field in schema]
        lines.append("")
    return "\n".join(lines)


def cli_page() -> str:
    root = click.Context(cli, info_name="wirelessdl", terminal_width=80, **cli.context_settings)
    lines = [CLI, f"```text\n{cli.get_help(root)}\n```\n"]
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        lines += _command(command, click.Context(command, info_name=name, parent=root), level=2)
    return "\n".join(lines)


def _command(command: click.Command, context: click.Context, level: int) -> list[str]:
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"{'#' * level} {context.command_path}\n", f"```text\n{' '.join(usage.split())}\n```\n", _help(command)]
    if command.epilog:
        lines.append(f"`{command.epilog.removeprefix('Example: ')}`\n")
    records = [
        record
        for option in command.get_params(context)
        if isinstance(option, click.Option) and "--help" not in option.opts
        if (record := option.get_help_record(context)) is not None
    ]
    if records:
        lines.append("| option | meaning |\n|---|---|")
        lines += [f"| `{_cell(names)}` | {_cell(' '.join(meaning.split()))} |" for names, meaning in records]
        lines.append("")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            lines += _command(inner, click.Context(inner, info_name=name, parent=context), level + 1)
    return lines


def _help(command: click.Command) -> str:
    """Paragraphs of a command's help; those that click does not wrap as blocks."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(f"```text\n{one[2:]}\n```" if one.startswith("\b\n") else one for one in paragraphs) + "\n"


def _column(field: pa.Field) -> str:
    unit, meaning = (field.metadata[key].decode() for key in (b"unit", b"meaning"))
    return f"| `{field.name}` | {unit} | {_cell(meaning)} |"


def _toml(value: object) -> str:
    first = value[0] if isinstance(value, list) and len(value) == 1 else value  # one part of what may be a list
    bare = getattr(first, "name", value)  # a part's default is its bare name
    if bare == {}:
        return "{}"
    if isinstance(bare, float) and 1e5 <= abs(bare) < float("inf"):
        digits, _, exponent = f"{bare:e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(exponent)}"  # as people write 3.5 GHz in a scenario
    return tomli_w.dumps({"value": bare}).partition("=")[2].strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "scenarios.md").write_text(scenarios_page(), encoding="utf-8")
    (here / "traces.md").write_text(traces_page(), encoding="utf-8")
    (here / "cli.md").write_text(cli_page(), encoding="utf-8")
