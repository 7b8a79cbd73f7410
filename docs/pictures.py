"""Draws the pictures of README and docs/ anew and compares: a stale one fails.

    python docs/pictures.py                    draws maps of the gallery and its first picture; looks at files of others
    python docs/pictures.py --all              draws again all that take minutes, too
    python docs/pictures.py --write NAME ...   draws these into docs/ (all that take minutes: --write)
    python docs/pictures.py --drawn NAME ...   notes that these were drawn from the files as they are now

docs/pictures.toml has the command of every picture but those of the gallery. Pictures are compared at a quarter of
their size, so that edges of letters do not count. Of those that take hours, docs/pictures.json keeps what their files
were when they were drawn.
"""

import argparse
import ast
import hashlib
import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gallery  # noqa: E402
from check_numbers import _run  # noqa: E402

ROOT = HERE.parent
KEPT = HERE / "pictures.json"
MOST = 0.5  # mean difference of two drawings, of 255, at a quarter of their size; a curve seven points lower makes 1.5
SHOWN = re.compile(r"(?:!\[[^\]]*\]\(|<img src=\")(?:docs/)?([^)\"\s]+\.(?:png|gif))[)\"]")


def made() -> list[dict]:
    """Commands, each with the pictures that it makes."""
    return tomllib.loads((HERE / "pictures.toml").read_text(encoding="utf-8"))["made"]


def shown() -> set[str]:
    """Pictures of README and of pages, as paths in docs/."""
    pages = [ROOT / "README.md", *HERE.glob("*.md")]
    return {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}


def without_command() -> set[str]:
    """Pictures that are shown and that nobody knows how to make."""
    known = {name for entry in made() for name in entry["pictures"]}
    return {name for name in shown() - known if not name.startswith("gallery/")}


def digest(entry: dict) -> str:
    """What decides the numbers of pictures that take hours: comments do not."""
    return hashlib.sha256("".join(_content(ROOT / path) for path in entry["inputs"]).encode()).hexdigest()[:16]


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return json.dumps(tomllib.loads(text), sort_keys=True)
    if path.suffix != ".py":
        return text
    code = text.splitlines()[ast.parse(text).body[1].lineno - 1 :]  # from behind the docstring
    return "\n".join(line for line in code if not line.lstrip().startswith("#"))


def outdated() -> Iterator[str]:
    """Pictures that take hours and whose files have changed since."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    for entry in made():
        if "inputs" in entry and any(kept.get(name) != digest(entry) for name in entry["pictures"]):
            yield (
                f"{', '.join(entry['pictures'])}: {', '.join(entry['inputs'])} changed since; draw anew by "
                f"`python docs/pictures.py --write {entry['pictures'][0]}`"
            )


def difference(one: Path, other: Path) -> float:
    """Mean difference of two pictures at a quarter of their size, of 255; of a playing one, of its last frame."""
    small = []
    with Image.open(one) as first, Image.open(other) as second:
        for picture in (first, second):
            picture.seek(getattr(picture, "n_frames", 1) - 1)
            size = (first.width // 4, first.height // 4)
            small.append(np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BOX), dtype=float))
    return float(np.abs(small[0] - small[1]).mean())


def differing(folder: Path, names: list[str]) -> Iterator[str]:
    """Of pictures drawn into a folder, those that look different in docs/."""
    for name in names:
        found = difference(HERE / name, folder / name)
        if found > MOST:
            yield f"{name}: looks different when drawn anew ({found:.1f} of 255)"


def stale(*, every: bool) -> Iterator[str]:
    """What is stale, in words."""
    yield from outdated()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        maps = [f"gallery/maps/{one}.png" for one in gallery.bundled_scenarios()]
        for path in maps:
            gallery.draw_small(Path(path).stem, folder / path)
        yield from differing(folder, maps)
        for one in gallery.bundled_scenarios() if every else ("quickstart",):
            gallery.row(one, {}, folder / "gallery")
        yield from differing(folder, sorted(f"gallery/{path.name}" for path in (folder / "gallery").glob("*.png")))
        for entry in made() if every else ():
            if "inputs" not in entry:
                draw(entry, folder)
                yield from differing(folder, entry["pictures"])


def draw(entry: dict, folder: Path) -> None:
    print(f"  {entry['command']}", flush=True)
    _run(entry["command"], str(folder))


def write(names: list[str]) -> None:
    """Draw pictures into docs/."""
    for entry in made():
        if set(names) & set(entry["pictures"]) or not (names or "inputs" in entry):
            with tempfile.TemporaryDirectory() as folder:
                draw(entry, Path(folder))
                for name in entry["pictures"]:
                    (found,) = Path(folder).rglob(Path(name).name)
                    shutil.copyfile(found, HERE / name)
            note(entry["pictures"])


def note(names: list[str]) -> None:
    """Keep what decides these pictures."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    for entry in made():
        kept.update({name: digest(entry) for name in entry["pictures"] if "inputs" in entry and name in names})
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="pictures, as paths in docs/")
    parser.add_argument("--all", action="store_true", help="compare also those that take minutes")
    parser.add_argument("--write", action="store_true", help="draw into docs/")
    parser.add_argument("--drawn", action="store_true", help="note that they were drawn from the files as they are")
    options = parser.parse_args()
    unknown = set(options.names) - {name for entry in made() for name in entry["pictures"]}
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}: not in docs/pictures.toml")
    if options.write:
        write(options.names)
    elif options.drawn:
        note(options.names)
    else:
        found = [f"{name}: has no command in docs/pictures.toml" for name in sorted(without_command())]
        found += stale(every=options.all)
        print("\n".join(found) or "no picture is stale")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
