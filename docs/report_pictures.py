"""Pictures of the main example's report, taken in Chromium: report.png, and report.gif, its map playing.

    python docs/report_pictures.py FOLDER                 writes both into FOLDER; `make gallery` brings them here
    python docs/report_pictures.py FOLDER --study STUDY   study_page.png: the first screen of a study's page

The run's summary stands in the PNG, for the test that holds it to the scenario. The playing map is of a run that
evaluates every round.
"""

import argparse
import base64
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

import wirelessdl
from wirelessdl.analysis.report import write_report
from wirelessdl.analysis.report.study import write_study_report

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browser import chromium, open_page  # noqa: E402

SCENARIO = "urban_er_k20"
WIDTH, HEIGHT = 1120, 1010
FRAME_MS, LAST_MS, COLOURS = 220, 2500, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--study", type=Path)
    options = parser.parse_args()
    if options.study is None:
        pictures_of_runs(options.out)
    else:
        picture_of_study(options.study, options.out)


def picture_of_study(study: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        open_page(browser, write_study_report(study, Path(folder) / "study.html"), width=WIDTH)
        picture(browser, 0, HEIGHT).quantize(COLOURS).save(out / "study_page.png", optimize=True)


def pictures_of_runs(out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for baseline in ("no-privacy", "local"):
            wirelessdl.simulate(wirelessdl.load_scenario(SCENARIO, baseline=baseline), out=folder)
        run = wirelessdl.simulate(wirelessdl.load_scenario(SCENARIO), out=folder)
        open_page(browser, write_report([run.path], Path(folder) / "still.html"), width=WIDTH)
        note = PngInfo()
        note.add_text("Summary", json.dumps(run.summary))
        picture(browser, 0, HEIGHT).save(out / "report.png", optimize=True, pnginfo=note)
        every = wirelessdl.load_scenario(SCENARIO, overrides={"learning.eval_every": 1})
        playing = wirelessdl.simulate(every, out=Path(folder) / "playing")
        open_page(browser, write_report([playing.path], Path(folder) / "playing.html"), width=WIDTH)
        frames = play(browser, len(playing.rounds))
        frames[0].save(
            out / "report.gif",
            save_all=True,
            append_images=frames[1:],
            duration=[FRAME_MS] * (len(frames) - 1) + [LAST_MS],
            loop=0,
            optimize=True,
        )


def play(browser: Any, rounds: int) -> list[Image.Image]:
    """The map and the nodes' accuracy in every round, in few colours."""
    top, bottom = browser.execute_script(
        "document.querySelectorAll('#network .save, #network details').forEach((one) => one.remove());"
        "const box = document.getElementById('network').getBoundingClientRect();"
        "return [box.top + window.scrollY, box.bottom + window.scrollY]"
    )
    found = []
    for frame in range(rounds):
        browser.execute_script("showFrame(arguments[0])", frame)
        shown = picture(browser, top, min(bottom - top, 660))
        small = shown.resize((shown.width * 7 // 10, shown.height * 7 // 10), Image.Resampling.LANCZOS)
        found.append(small.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
    return found


def picture(browser: Any, top: float, height: float) -> Image.Image:
    """The page from `top` on, pixels as CSS counts them."""
    clip = {"x": 0, "y": top, "width": WIDTH, "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")


if __name__ == "__main__":
    main()
