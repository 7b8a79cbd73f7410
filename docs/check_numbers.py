"""Reruns the commands that numbers in the documentation come from, and compares.

    python docs/check_numbers.py           the quick ones
    python docs/check_numbers.py --all     the slow ones, too: every scenario of the gallery
    python docs/check_numbers.py --only power

docs/numbers.toml lists numbers: page, sentence with the number in braces, command, how to read the value, tolerance.
A sentence stands in its page once, whatever its line breaks; a test checks that without running anything. Two kinds:

    [[number]]     one number; `json` is the key of the last JSON object that is printed, `match` a pattern of its text
    [[output]]     a pasted block, found by its first line: its lines must come in this order in what is printed, and
                   its numbers agree within a relative tolerance; lines that begin as `except` says are not compared

A number in braces that ends with % is compared with 100 times the value. `seeds` runs the command with each --seed, and
`of` (mean, min, max) reduces the values.
"""

import argparse
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

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
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

    @property
    def stated(self) -> str:
        (stated,) = MARKED.findall(self.text)
        return stated

    @property
    def plain(self) -> str:
        return MARKED.sub(r"\1", self.text)

    @property
    def commands(self) -> list[str]:
        return [f"{self.command} --seed {seed}" for seed in self.seeds] or [self.command]

    def problem(self, printed: list[str]) -> str:
        """What is wrong, or nothing."""
        value = REDUCE[self.of]([self._read(text) for text in printed])
        percent = self.stated.endswith("%")
        said, seen = float(self.stated.rstrip("%x").replace(",", "")), value * 100 if percent else value
        # half a unit of the last digit is what rounding does, and no difference
        rounding = 0.5 * 10.0 ** -len(self.stated.rstrip("%x").partition(".")[2])
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
        (found,) = [block for block in blocks if block.startswith(self.begins)]
        return found

    def problem(self, printed: list[str]) -> str:
        (text,) = printed
        lines = iter([_folded(line) for line in text.splitlines()])
        for line in self.block().splitlines():
            if line.strip() == "..." or any(line.strip().startswith(start) for start in self.skipped):
                continue
            if not any(self._alike(_folded(line), seen) for seen in lines):  # goes on where the last one was found
                return f"{self.page} shows {line.strip()!r}; `{self.command}` prints no such line"
        return ""

    def _alike(self, said: str, seen: str) -> bool:
        if NUMBER.sub("#", said) != NUMBER.sub("#", seen):
            return False
        for one, other in zip(_values(said), _values(seen), strict=True):
            if abs(one - other) > self.tolerance * max(abs(one), abs(other)):
                return False
        return True


def numbers() -> list[Number | Output]:
    """All entries of the table, and the numbers of the gallery."""
    table = tomllib.loads((ROOT / "docs" / "numbers.toml").read_text(encoding="utf-8"))
    single = [Number(**{**entry, "seeds": tuple(entry.get("seeds", ()))}) for entry in table["number"]]
    pasted = [Output(skipped=tuple(entry.pop("except", ())), **entry) for entry in table["output"]]
    return [*single, *pasted, *gallery_numbers()]


def gallery_numbers() -> Iterator[Number]:
    rows = json.loads((ROOT / "docs" / "gallery" / "gallery.json").read_text(encoding="utf-8"))
    for name, row in rows.items():
        if row.get("summary"):
            command = row["command"].removesuffix(" --json") + " --json"
            page = "docs/gallery.md"
            accuracy = row["summary"]["accuracy_mean"]
            yield Number(page, f"`{name}` reaches {{{accuracy:.1%}}}", command, 1.0, json="accuracy_mean", slow=True)


def stands_in(number: Number) -> int:
    """How often the sentence of a number stands in its page."""
    return _folded((ROOT / number.page).read_text(encoding="utf-8")).count(_folded(number.plain))


def page() -> str:
    """The page of the site that lists them."""
    lines = [
        "# Where numbers come from\n",
        "Each number below was made by the command beside it. `make docs-numbers` runs the quick commands again and",
        "fails where a number differs by more than its tolerance; `make docs-numbers-all` runs all of them. The table",
        "is `docs/numbers.toml`.\n",
        "| page | number | command | tolerance |",
        "|---|---|---|---|",
    ]
    for entry in numbers():
        place = f"[{entry.page}]({Path(entry.page).name})" if entry.page.startswith("docs/") else f"`{entry.page}`"
        if isinstance(entry, Number):
            seeds = f", seeds {min(entry.seeds)} to {max(entry.seeds)}, {entry.of}" if entry.seeds else ""
            text = MARKED.sub(r"**\1**", entry.text).replace("|", "\\|")
            lines.append(f"| {place} | {text} | `{entry.command}`{seeds} | {entry.tolerance:g} |")
        else:
            lines.append(f"| {place} | block `{entry.begins}` | `{entry.command}` | {entry.tolerance:.0%} |")
    return "\n".join(lines) + "\n"


def check(entries: Iterable[Number | Output]) -> list[str]:
    """Run each command once and collect what is wrong."""
    printed: dict[str, str] = {}
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries:
            try:
                for command in entry.commands:
                    if command not in printed:
                        print(f"  {command}", flush=True)
                        printed[command] = _run(command, folder)
                problem = entry.problem([printed[command] for command in entry.commands])
            except NotFetchedError as error:
                print(f"    not checked: {error}", flush=True)
                continue
            except (ValueError, KeyError, IndexError, TypeError) as error:
                problem = f"{entry.page}: {error}"
            if problem:
                print(f"    {problem}", flush=True)
                problems.append(problem)
    return problems


def _run(command: str, folder: str) -> str:
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    words = [
        str(ROOT / word) if word.startswith(("docs/", "examples/", "scenarios/", "wirelessdl/")) else word
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


def _values(line: str) -> list[float]:
    return [float(value.replace(",", "")) for value in NUMBER.findall(line)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="the slow ones, too")
    parser.add_argument("--only", default="", help="pages or commands that contain this")
    options = parser.parse_args()
    chosen = [one for one in numbers() if options.all or not one.slow]
    chosen = [one for one in chosen if options.only in one.page or options.only in one.command]
    wrong = check(chosen)
    print(f"{len(chosen)} numbers and blocks, {len(wrong)} differ")
    sys.exit(bool(wrong))
