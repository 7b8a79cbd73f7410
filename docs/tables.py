"""Writes docs/scenarios.md and docs/traces.md from the schemas, so that they cannot drift apart.

    python docs/tables.py

A test compares the pages with what this script makes.
"""

from pathlib import Path

import pyarrow as pa
import tomli_w

from wirelessdl.scenario.schema import Scenario
from wirelessdl.trace.schema import TABLES

SCENARIOS = """# Scenarios

A scenario is a TOML file of sections. Everything but the keys marked *needed* has a default, and
`wirelessdl schema` prints the JSON Schema that lets an editor complete and check them. A part, such as
a topology, is a table with its `kind` (channels and learners: `model`) and parameters beside it, or just
its name; `wirelessdl list` shows every kind with its parameters. A part may be yours: `"file.py:Class"`,
looked up from the working folder, the scenario's folder and its parent. Its parameters are checked
against its `__init__` signature, and the file is copied into the run.
"""

TRACES = """# Traces

A run directory is never overwritten; a second run of the same name gets `-2`, `-3`, and so on.

```text
outputs/<scenario>-s<seed>-r<run>/
  scenario.toml      resolved and complete: running it again, from where it lies, gives the same tables
  provenance.json    versions, device, threads, git, command, hashes of your model files
  models/            copies of your model files
  checkpoint/        the newest state to go on from, and the one before
  lock               there while a process writes the run
  rounds/ nodes/ links/ events/     Parquet parts, each whole or absent
  privacy/           totals, one snapshot
  summary.json       final figures
  report.html        when asked for: `wirelessdl report`
```

`pd.read_parquet("outputs/<run>/rounds")` reads a table; `wirelessdl.open_run(path)` gives `.rounds`,
`.nodes`, `.links`, `.events` and `.privacy` as frames, with `.summary`, `.scenario` and `.provenance`;
`run.frame("links", ["tx", "rx", "gain"], rounds=(1, 50))` reads only what it is asked for ([more](report.md)).
Unit and meaning of every column are in the Arrow field metadata too.
"""

ABOUT = {
    "rounds": "One row per round.",
    "nodes": "One row per node and round.",
    "links": "One row per link and round (see `trace.links`).",
    "events": (
        "What happened when: `frame` (a round opens), `plan`, `computed` (a node finished its gradient), `late` (it "
        "had not when a frame opened), `crash`, `rejoin`, `battery` (used up), `budget` (own total spent: silent from "
        "here on), `violation` (links above epsilon_max)."
    ),
    "privacy": (
        "Totals: one row per sender behind its own noise (`proven`, rx null), one per link for the paper's sum over "
        "slots (`claim`). While the run goes on: the senders alone, by a cheaper bound."
    ),
}


def scenarios_page() -> str:
    lines = [SCENARIOS]
    for name, field in Scenario.model_fields.items():
        section = field.annotation
        lines.append(f"## [{name}]\n\n{section.__doc__}\n\n| key | default | meaning |\n|---|---|---|")
        for key, entry in section.model_fields.items():
            default = "*needed*" if entry.is_required() else f"`{_toml(entry.default)}`"
            lines.append(f"| `{key}` | {default} | {_cell(entry.description)} |")
        lines.append("")
    return "\n".join(lines)


def traces_page() -> str:
    lines = [TRACES]
    for name, schema in TABLES.items():
        lines.append(f"## {name}\n\n{ABOUT[name]}\n\n| column | unit | meaning |\n|---|---|---|")
        lines += [_column(field) for field in schema]
        lines.append("")
    return "\n".join(lines)


def _column(field: pa.Field) -> str:
    unit, meaning = (field.metadata[key].decode() for key in (b"unit", b"meaning"))
    return f"| `{field.name}` | {unit} | {_cell(meaning)} |"


def _toml(value: object) -> str:
    bare = getattr(value, "name", value)  # a part's default is its bare name
    if bare == {}:
        return "{}"
    return tomli_w.dumps({"value": bare}).partition("=")[2].strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "scenarios.md").write_text(scenarios_page(), encoding="utf-8")
    (here / "traces.md").write_text(traces_page(), encoding="utf-8")
