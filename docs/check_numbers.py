"""Reruns the commands that numbers in the documentation come from, and compares.

    python docs/check_numbers.py                 the quick ones
    python docs/check_numbers.py --all           the slow ones, too: about 45 minutes of processor time
    python docs/check_numbers.py --only power    pages or commands that contain this
    python docs/check_numbers.py --all --keep FOLDER

With --keep, what commands print is kept in a folder, and commands whose output is there are not run again: a check goes
on after an interruption. The folder is only as good as the code that filled it.

docs/numbers.toml lists numbers with page, command, how to read the value, and tolerance. A tolerance below half a unit
of the last digit counts as that half, which is what rounding does. Kinds that are run again:

    [[number]]     one number: a sentence with the number in braces, which stands in its page once, whatever its line
                   breaks; `json` is the key of the last JSON object that is printed, `match` a pattern of its text
    [[table]]      the numbers of a table, found by its first row: `command` with {row} and {column} in place, which
                   `rows` and `columns` give for each label and heading; `json` or `match` as above, for all cells
                   or by heading or label. A column `mean` is the mean of its row
    [[output]]     a pasted block, or a table that a command prints, found by its first line: its lines must come in
                   this order in what is printed, and its numbers agree within a relative tolerance; lines that begin
                   as `except` says are not compared

A number that ends with % is compared with 100 times a value of `json`. `seeds` runs the command with each --seed, and
`of` (mean, min, max) reduces the values. Commands joined by && run one after another in one folder.

Kinds that are not run again, and why:

    [[tested]]     a number that a test of the repository holds; `make test-all` runs it
    [[measured]]   times, memory and ratios of times depend on the machine and on what else runs there, and some
                   counts (mutants, campaigns, figures of the paper) take hours: the command stands on the page

A test checks that all sentences, tables and commands stand in their pages, without running anything.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"(?<![\w.])-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?")
NUMBER_OF_CELL = re.compile(NUMBER.pattern + "%?")
MARKED = re.compile(r"\{([^{}]*)\}")
REDUCE = {"mean": fmean, "min": min, "max": max}


class NotFetchedError(Exception):
    """A command needs data that are not in the package."""


@dataclass(frozen=True)
class Number:
    """One number of a page."""

    page: str
    text: str
    command: str
    tolerance: float
    json: str = ""
    match: str = ""
    seeds: tuple[int, ...] = ()
    of: str = "mean"
    slow: bool = False
    row_of: tuple[str, ...] = ()  # several commands in place of one, reduced like seeds

    @property
    def stated(self) -> str:
        (stated,) = MARKED.findall(self.text)
        return stated

    @property
    def plain(self) -> str:
        return MARKED.sub(r"\1", self.text)

    @property
    def commands(self) -> list[str]:
        one = self.row_of or (self.command,)
        return [f"{command} --seed {seed}" for command in one for seed in self.seeds] or list(one)

    def problem(self, printed: list[str]) -> str:
        """What is wrong, or nothing."""
        value = REDUCE[self.of]([self._read(text) for text in printed])
        said, seen = _number(self.stated), value * 100 if self.json and self.stated.endswith("%") else value
        rounding = _half_digit(self.stated)
        if abs(said - seen) <= max(self.tolerance, rounding) * (1 + 1e-9):
            return ""
        return f"{self.page} says {self.stated} in {self.plain!r}; `{self.command}` gives {seen:.4g}"

    def _read(self, printed: str) -> float:
        if self.match:
            found = re.search(self.match, printed)
            if found is None:
                raise ValueError(f"`{self.command}` prints nothing like {self.match!r}")
            return float(found[1].replace(",", ""))
        value = _last_json(printed)
        for key in self.json.split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return float(value)


@dataclass(frozen=True)
class Table:
    """Numbers of a table of a page, each cell from a command of its own."""

    page: str
    header: str
    command: str
    tolerance: float | dict[str, float]
    rows: dict[str, str]
    columns: dict[str, str] = field(default_factory=dict)
    json: str | dict[str, str] = ""
    match: str | dict[str, str] = ""
    seeds: tuple[int, ...] = ()
    of: str = "mean"
    slow: bool = False

    def numbers(self) -> Iterator[Number]:
        headings = _cells(self.header)
        for line in self.lines():
            cells = _cells(line)
            if cells[0] not in self.rows:
                continue
            # a column without an entry of its own is varied by its heading, unless columns are listed
            varied = [one for one in headings if one in self.columns]
            varied = varied or [one for one in headings[1:] if one != "mean"]
            for heading, cell in zip(headings, cells, strict=True):
                found = NUMBER_OF_CELL.search(cell)
                if found is None or heading not in (*varied, "mean"):
                    continue
                mean = (
                    tuple(self._command(cells[0], one) for one in varied)
                    if heading == "mean" and heading not in varied
                    else ()
                )
                marked = f"{cell[: found.start()]}{{{found[0]}}}{cell[found.end() :]}"
                at = headings.index(heading)
                yield Number(
                    page=self.page,
                    text="| " + " | ".join([*cells[:at], marked, *cells[at + 1 :]]) + " |",
                    command=self._command(cells[0], heading),
                    tolerance=float(_given(self.tolerance, heading, cells[0])),
                    json=str(_given(self.json, heading, cells[0])),
                    match=str(_given(self.match, heading, cells[0]))
                    .replace("{column}", re.escape(_bare(heading)))
                    .replace("{row}", re.escape(self.rows[cells[0]])),
                    seeds=self.seeds,
                    of=self.of,
                    slow=self.slow,
                    row_of=mean,
                )

    def lines(self) -> list[str]:
        """Rows below the header; raises ValueError where it does not stand in its page once."""
        text = (ROOT / self.page).read_text(encoding="utf-8")
        _, rest = text.split(f"{self.header}\n")
        return rest.split("\n\n")[0].splitlines()[1:]

    def _command(self, row: str, column: str) -> str:
        put = self.columns.get(column, _bare(column))
        return self.command.replace("{row}", self.rows[row]).replace("{column}", put).replace("  ", " ")


@dataclass(frozen=True)
class Tested:
    """A number that a test holds."""

    page: str
    text: str
    test: str  # path::name


@dataclass(frozen=True)
class Measured:
    """Numbers of a page that are not made again."""

    page: str
    command: str
    what: str


@dataclass(frozen=True)
class Output:
    """A pasted block of a page."""

    page: str
    begins: str
    command: str
    tolerance: float
    skipped: tuple[str, ...] = field(default=())
    slow: bool = False

    @property
    def commands(self) -> list[str]:
        return [self.command]

    def block(self) -> str:
        text = (ROOT / self.page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        blocks += re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        (found,) = [block for block in blocks if block.startswith(self.begins)]
        return found

    def problem(self, printed: list[str]) -> str:
        (text,) = printed
        lines = iter([_folded(line) for line in text.splitlines()])
        for line in self.block().splitlines():
            if (
                line.strip() == "..."
                or line.startswith("|---")
                or any(line.strip().startswith(start) for start in self.skipped)
            ):
                continue
            if not any(self._alike(_folded(line), seen) for seen in lines):  # goes on where the last one was found
                return f"{self.page} shows {line.strip()!r}; `{self.command}` prints no such line"
        return ""

    def _alike(self, said: str, seen: str) -> bool:
        if NUMBER.sub("#", said) != NUMBER.sub("#", seen):
            return False
        for text, other in zip(NUMBER.findall(said), NUMBER.findall(seen), strict=True):
            one, two = _number(text), _number(other)
            if abs(one - two) > max(self.tolerance * max(abs(one), abs(two)), _half_digit(text)) * (1 + 1e-9):
                return False
        return True


def entries() -> list[Number | Table | Output]:
    """All entries of the table that are run again, and the numbers of the gallery."""
    table = _toml()
    single = [Number(**{**entry, "seeds": tuple(entry.get("seeds", ()))}) for entry in table["number"]]
    whole = [Table(**{**entry, "seeds": tuple(entry.get("seeds", ()))}) for entry in table["table"]]
    pasted = [Output(skipped=tuple(entry.pop("except", ())), **entry) for entry in table["output"]]
    return [*single, *whole, *pasted, *gallery_numbers()]


def numbers() -> list[Number | Output]:
    """What is run again, number by number."""
    return [one for entry in entries() for one in (list(entry.numbers()) if isinstance(entry, Table) else [entry])]


def left_out() -> list[Tested | Measured]:
    """What is not run again."""
    table = _toml()
    return [*(Tested(**entry) for entry in table["tested"]), *(Measured(**entry) for entry in table["measured"])]


def _toml() -> dict[str, Any]:
    return tomllib.loads((ROOT / "docs" / "numbers.toml").read_text(encoding="utf-8"))


def gallery_numbers() -> Iterator[Number]:
    rows = json.loads((ROOT / "docs" / "gallery" / "gallery.json").read_text(encoding="utf-8"))
    for name, row in rows.items():
        if row.get("summary"):
            command = row["command"].removesuffix(" --json") + " --json"
            page = "docs/gallery.md"
            accuracy = row["summary"]["accuracy_mean"]
            yield Number(page, f"`{name}` reaches {{{accuracy:.1%}}}", command, 1.0, json="accuracy_mean", slow=True)


def stands_in(number: Number | Tested) -> int:
    """How often the sentence of a number stands in its page."""
    plain = MARKED.sub(r"\1", number.text)
    return _folded((ROOT / number.page).read_text(encoding="utf-8")).count(_folded(plain))


def check(entries: Iterable[Number | Output], keep: Path | None = None) -> tuple[list[str], int]:
    """Run each command once; what is wrong, and how many could not be checked."""
    printed: dict[str, str] = {}
    problems, unchecked = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries:
            try:
                for command in entry.commands:
                    if command not in printed:
                        printed[command] = _kept(command, keep, folder)
                problem = entry.problem([printed[command] for command in entry.commands])
            except NotFetchedError as error:
                print(f"    not checked: {error}", flush=True)
                unchecked += 1
                continue
            except (ValueError, KeyError, IndexError, TypeError) as error:
                problem = f"{entry.page}: {error}"
            if problem:
                print(f"    {problem}", flush=True)
                problems.append(problem)
    return problems, unchecked


def _kept(command: str, keep: Path | None, folder: str) -> str:
    """What a command prints; from the folder of kept outputs if it is there."""
    file = None if keep is None else keep / f"{hashlib.sha256(command.encode()).hexdigest()[:16]}.txt"
    if file is not None and file.is_file():
        return file.read_text(encoding="utf-8")
    print(f"  {command}", flush=True)
    text = _run(command, folder)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return text


def _run(command: str, folder: str) -> str:
    """What commands joined by && print, one after another in a folder."""
    return "".join(_run_one(one.strip(), folder) for one in command.split(" && "))


def _run_one(command: str, folder: str) -> str:
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    words = [
        str(ROOT / word) if word.startswith(("docs/", "examples/", "scenarios/", "tests/", "wirelessdl/")) else word
        for word in shlex.split(command)
    ]
    if words[0] in ("wirelessdl", "python"):  # what is checked is this checkout
        words = [sys.executable, *(("-m", "wirelessdl") if words[0] == "wirelessdl" else ()), *words[1:]]
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if "wirelessdl data fetch" in done.stderr:
        raise NotFetchedError(done.stderr.strip()[-400:])
    if done.returncode:
        raise ValueError(f"`{command}` fails: {done.stderr.strip()[-400:]}")
    return done.stdout


def _last_json(printed: str) -> object:
    try:
        return json.loads(printed)
    except json.JSONDecodeError:
        return json.loads(printed.strip().splitlines()[-1])


def _folded(text: str) -> str:
    """Text without line breaks, comment signs of a scenario's header, and runs of blanks."""
    return " ".join(re.sub(r"^#( |$)", "", text, flags=re.MULTILINE).split())


def _number(text: str) -> float:
    return float(text.rstrip("%x").replace(",", ""))


def _half_digit(text: str) -> float:
    """Half a unit of the last digit: what rounding does, and no difference."""
    digits, _, exponent = text.rstrip("%x").partition("e")
    return 0.5 * 10.0 ** (float(exponent or 0) - len(digits.partition(".")[2]))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _bare(cell: str) -> str:
    return cell.strip("*` ")


def _given(value: Any, *names: str) -> Any:
    """A value for all cells, or by heading or label."""
    if not isinstance(value, dict):
        return value
    return next((value[name] for name in names if name in value), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="the slow ones, too")
    parser.add_argument("--only", default="", help="pages or commands that contain this")
    parser.add_argument("--keep", type=Path, help="folder of what commands printed")
    options = parser.parse_args()
    chosen = [one for one in numbers() if options.all or not one.slow]
    chosen = [one for one in chosen if options.only in one.page or options.only in one.command]
    wrong, unchecked = check(chosen, options.keep)
    print(f"{len(chosen)} numbers and blocks, {len(wrong)} differ, {unchecked} not checked for want of data")
    sys.exit(bool(wrong))
