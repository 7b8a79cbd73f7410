"""Combinations of all options: every two alternatives of two options stand together in some run.

    python tests/campaigns/combinations.py FOLDER RUNS [SEED]     # at most so many runs; 0: the whole array, once

Every row runs for three rounds in a child process (`children`); `invariants.broken` and `wirelessdl verify` read its
traces, `wirelessdl report` makes its page. Pairs that no scenario may hold must be refused: one line, exit code 2.
Lines that begin with FOUND say what went wrong; the last line has the counts. Where an array has fewer rows than are
asked for, another one is drawn from the next seed. One that was stopped goes on (`journal`).
"""

import json
import random
import shutil
from collections import Counter

import children
import tomli_w
from children import limited, load_all, wrong
from covering import all_pairs, covering_array, pairs_of
from invariants import broken
from journal import Journal, main
from options import BASELINE, table_of
from row_files import write
from rules import keeps_rules, with_needs

import wirelessdl
from wirelessdl.errors import WirelessdlError
from wirelessdl.scenario.loader import parse_scenario
from wirelessdl.scenario.overrides import apply_overrides, baseline_overrides

children.LIMIT_S = 600  # slow ways of computing are among the options


def accepts(row):
    """Whether a row describes a scenario that is not refused for what it says."""
    if not keeps_rules(row):
        return False
    table, name = table_of(row), _baseline(row)
    try:
        if name is not None:
            apply_overrides(table, baseline_overrides(name, lambda: parse_scenario(table_of(row))), {})
        parse_scenario(table)
    except WirelessdlError:
        return False
    return True


def _baseline(row):
    name = row.get(BASELINE, "none")
    return None if name == "none" else name


def _written(row, folder):
    """The scenario that a row describes, as a file, and the words of a command that take it."""
    file, name = folder / "row.toml", _baseline(row)
    file.write_bytes(tomli_w.dumps(table_of(row)).encode())
    return [str(file), *(() if name is None else ("--baseline", name))]


def tried(row, folder, counts):
    """Lines for what is wrong with one row; counts what became of it."""
    write(folder)
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    result = limited(["run", *_written(row, folder), "--quiet", "--out", str(out)], folder)
    problem = wrong("run", result, (0, 2))
    if problem:
        return [f"run: {problem}"]
    if result[0] == 2:
        counts["refused"] += 1
        counts[_reason(result[1])] += 1
        if list(out.glob("*")) and "gains of one frame" not in result[1]:  # a limit of adaptive plans (docs/power.md)
            return [f"run: refused, and left {sorted(path.name for path in out.glob('*'))}: {result[1].strip()}"]
        return []
    counts["finished"] += 1
    (path,) = out.iterdir()
    lines = []
    for command in ("verify", "report"):
        problem = wrong(command, limited([command, str(path)], folder), (0,))
        lines += [f"{command}: {problem}"] if problem else []
    return [*lines, *broken(wirelessdl.open_run(path))]


def _reason(output):
    """The kind of a refusal, without its numbers, for the counts."""
    line = next(line for line in output.splitlines() if "Error: " in line)
    return "REASON " + "".join("#" if letter.isdigit() else letter for letter in line)[:160]


def refused(pair, folder):
    """What is wrong with how a pair is refused that no scenario may hold."""
    write(folder)
    problem = wrong("check", limited(["check", *_written(with_needs(pair), folder)], folder), (2,))
    return [f"check: {problem}"] if problem else []


def _array(folder, seed, most):
    """Rows and pairs of a seed, from a file where a campaign that was stopped left them: they take minutes."""
    file = folder / f"array-{seed}-{most}.json"
    if not file.exists():
        file.write_text(json.dumps(covering_array(random.Random(seed), accepts, most)))
    return json.loads(file.read_text())


def campaign(folder, most, seed):
    journal, covered, unlike, ran = Journal(folder), set(), [], 0
    while most == 0 or ran < most:
        rows, pairs = _array(folder, seed, most - ran if most else 0)
        print(f"ARRAY seed {seed}: {len(rows)} rows, {len(pairs)} pairs to be refused", flush=True)
        unlike = unlike or pairs
        for number, row in enumerate(rows):
            ran += 1
            name, counts = f"{seed}:{number}", Counter(runs=1)
            if name not in journal:
                journal.add(name, counts, [f"{line}\n  {row}" for line in tried(row, folder / "row", counts)])
                print(f"TRIED {name}", flush=True)
            if journal.trials[name].get("finished"):
                covered |= pairs_of(row)
        seed += 1
        if most == 0:
            break
    for number, pair in enumerate(unlike):
        if f"pair {number}" not in journal:
            journal.add(
                f"pair {number}", Counter(pairs=1), [f"{pair} {line}" for line in refused(pair, folder / "pair")]
            )
    counts, refusable = journal.counts, {tuple(sorted(pair.items())) for pair in unlike}
    for reason, count in counts.most_common():
        if reason.startswith("REASON"):
            print(f"{count:5} {reason.removeprefix('REASON ')}")
    return journal.report(
        f"combinations: {counts['runs']} runs, {counts['finished']} finished, {counts['refused']} refused with one "
        f"line; {counts['pairs']} pairs that no scenario may hold; {len(covered)} of "
        f"{len(all_pairs() - refusable | covered)} possible pairs in finished runs"
    )


if __name__ == "__main__":
    load_all()
    main(campaign)
