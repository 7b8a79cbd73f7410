"""Runs and studies in which something belongs to another user: one line or the right result, and nothing is lost.

    python tests/campaigns/owners.py FOLDER TRIALS [SEED]      # as root, which becomes nobody in children

Of a run or study that belongs to nobody, one file or folder, or the folder around it, is root's: closed (nobody may not
read it) or fixed (nobody may not write it). Commands of nobody end in a result or one line. Where `run --resume` is
refused, nothing has changed but the lock, and once the file is given back it goes on to the tables of the uninterrupted
run. FOLDER must be one that nobody can enter. Lines that begin with FOUND say what went wrong; the last line has the
counts.
"""

import importlib
import os
import pkgutil
import shutil
import sys
import warnings
from contextlib import suppress

import damage
from children import limited, load_all, wrong
from interrupting import assert_same_tables
from journal import difference, main, numbered

NOBODY = 65534
MODES = {"closed": (0o600, 0o700), "fixed": (0o644, 0o755)}  # of a file, of a folder
_NOT_LOADED = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "lib2to3", "__main__"}


def load_library():
    """Every module of Python's own library, which may lie where nobody cannot read; also those within packages."""
    for name in sorted(sys.stdlib_module_names - _NOT_LOADED):
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            found = importlib.import_module(name)
            for inner in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{name}.", onerror=lambda _: None):
                if not _NOT_LOADED & set(inner.name.split(".")):
                    with suppress(Exception):
                        importlib.import_module(inner.name)


def given(place):
    """All of a folder, given to nobody and open to nobody."""
    for path in (place, *place.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o755 if path.is_dir() else 0o644)


def content(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and not path.name.endswith("lock")}


def tried(rng, folder, made, counts):
    """What was done, and lines for what is wrong."""
    name = rng.choice(["run", "part", "part", "part", "study"])
    shutil.rmtree(folder / "copy", ignore_errors=True)
    place = shutil.copytree(made[name], folder / "copy" / made[name].name)
    shutil.rmtree(place / "report.html", ignore_errors=True)
    given(folder / "copy")
    paths = [place.parent, place, *sorted(place.rglob("*"))]
    target, how = rng.choice(paths[:2] if rng.random() < 0.15 else paths[2:]), rng.choice(sorted(MODES))
    os.chown(target, 0, 0)
    target.chmod(MODES[how][target.is_dir()])
    before, lines = content(place), []

    def command(*words, allowed):
        result = limited(words, folder, NOBODY)
        problem = wrong(words[0], result, allowed)
        lines.extend([f"{' '.join(words[:2])}: {problem}"] if problem else [])
        return result[0]

    command("list", str(place.parent), allowed=(0, 2))
    page = ("--out", str(folder / "pages" / "page.html"))
    if name == "study":
        command("list", str(place), allowed=(0, 2))
        command("report", str(place), *page, allowed=(0, 2))
        command("compare", str(place), allowed=(0, 2))
        code = command("sweep", "--resume", str(place), "--jobs", "1", "--quiet", allowed=(0, 1, 2))
    else:
        command("verify", str(place), allowed=(0, 1, 2))
        command("report", str(place), *page, allowed=(0, 2))
        command("compare", str(place), str(made["run"]), allowed=(0, 2))
        code = command("run", "--resume", str(place), "--quiet", allowed=(0, 2))
    counts["refused" if code else "done"] += 1
    if code and name != "study":
        changed = [path.name for path, was in before.items() if not path.exists() or path.read_bytes() != was]
        lines += [f"refused, and changed {changed}"] if changed else []
    given(folder / "copy")
    lines += _ends(place, made, name, folder)
    return f"{name}, {how} {target.relative_to(folder / 'copy').as_posix()}", lines


def _ends(place, made, name, folder):
    """What is wrong with how it ends once everything is nobody's again."""
    words = ("sweep", "--resume", str(place), "--jobs", "1") if name == "study" else ("run", "--resume", str(place))
    code, output, *_ = limited([*words, "--quiet"], folder, NOBODY)
    if code:
        return [f"does not go on when all is given back: {output[-300:]}"]
    if name == "study":
        return difference(damage.assert_same_study, place, made["study"])
    return difference(assert_same_tables, place, made["run"])


def campaign(folder, count, seed):
    folder.chmod(0o755)
    made = damage.make(folder)
    for name in ("run", "part", "study", "half"):
        given(folder / name)
    (folder / "pages").mkdir(exist_ok=True)
    given(folder / "pages")
    journal = numbered(folder, count, seed, lambda rng, counts: tried(rng, folder, made, counts))
    counts = journal.counts
    return journal.report(
        f"owners: {counts['trials']} trials, {counts['refused']} resumes refused, {counts['done']} done, all gone on "
        "with when given back"
    )


if __name__ == "__main__":
    if os.getuid():
        raise SystemExit("owners: needs root, which can become another user")
    load_all()
    load_library()
    main(campaign)
