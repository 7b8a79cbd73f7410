"""The page of the site that lists numbers and where they come from, made from docs/numbers.toml by the site's hooks."""

from pathlib import Path

from check_numbers import MARKED, Measured, Number, Output, Table, Tested, entries, left_out

TOP = """# Where numbers come from

Each number below was made by the command beside it. `make docs-numbers` runs the quick commands again and fails where a
number differs by more than its tolerance; `make docs-numbers-all` runs all of them. The table is `docs/numbers.toml`.

| page | number | command | tolerance |
|---|---|---|---|
"""
TESTED = """
## Held by a test

These are not made again by `docs-numbers`: a test of the repository holds them, and `make test-all` runs it.

| page | number | test |
|---|---|---|
"""
MEASURED = """
## Measured once

Times, memory and their ratios depend on the machine and on what else runs on it; some counts take hours. These numbers
are not compared. Their command stands on their page.

| page | numbers | command |
|---|---|---|
"""


def page() -> str:
    kept = left_out()
    tested = [
        f"| {_place(one.page)} | {_bold(one.text)} | {_test(one.test)} |\n" for one in kept if isinstance(one, Tested)
    ]
    measured = [f"| {_place(one.page)} | {one.what} | `{one.command}` |\n" for one in kept if isinstance(one, Measured)]
    whole = "".join([TOP, *map(_line, entries()), TESTED, *tested, MEASURED, *measured])
    return whole.replace("\n\n|", '\n\n<div class="numbers" markdown>\n\n|', 1) + "\n</div>\n"


def _line(entry: Number | Table | Output) -> str:
    if isinstance(entry, Output):
        begins = entry.begins.partition("\n")[0].strip("| ").replace("|", ",")
        return f"| {_place(entry.page)} | block `{begins}` | `{entry.command}` | {entry.tolerance:.1%} |\n"
    seeds = f", seeds {min(entry.seeds)} to {max(entry.seeds)}, {entry.of}" if entry.seeds else ""
    if isinstance(entry, Table):
        header = ", ".join(cell.strip("*`") for cell in entry.header.strip("| ").split(" | "))
        text = f"table *{header}*, {len(list(entry.numbers()))} numbers"
        given = entry.tolerance if isinstance(entry.tolerance, dict) else {"": entry.tolerance}
        within = ", ".join(f"{value:g}" for value in dict.fromkeys(given.values()))
    else:
        text, within = _bold(entry.text), f"{entry.tolerance:g}"
    command = entry.command.replace("|", "\\|")
    return f"| {_place(entry.page)} | {text} | `{command}`{seeds} | {within} |\n"


def _bold(text: str) -> str:
    """A sentence with its number in bold; a part of a sentence may hold half of a pair of backticks."""
    return MARKED.sub(r"**\1**", text.replace("`", "")).replace("****", "**").replace("|", "\\|")


def _test(test: str) -> str:
    """A test's name, which a narrow column breaks between words."""
    return f"<code>{test.replace('/', '/<wbr>').replace('::', '::<wbr>').replace('_', '_<wbr>')}</code>"


def _place(page: str) -> str:
    if page.startswith("docs/"):
        return f"[{page}]({Path(page).name})"
    return f"<code>{page.replace('/', '/<wbr>')}</code>"  # a narrow column breaks a path between folders
