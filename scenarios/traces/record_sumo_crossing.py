"""Records scenarios/traces/crossing_sumo.fcd.xml.gz with SUMO: 20 s at a crossing, cars and walkers.

    pip install eclipse-sumo==1.28.0                   # or SUMO_HOME=<where it is>
    python scenarios/traces/record_sumo_crossing.py

A crossing with traffic lights, four arms of 120 m, two lanes each, sidewalks and crosswalks, made by netgenerate; trips
by randomTrips.py with seeds. The buildings in crossing_sumo.poly.xml are drawn by hand around it.
"""

import gzip
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 20


def main() -> None:
    package = importlib.util.find_spec("sumo")
    home = Path(os.environ.get("SUMO_HOME") or Path(str(package and package.origin)).parent)
    if not (home / "bin").is_dir():
        sys.exit("SUMO is not there: pip install eclipse-sumo, or set SUMO_HOME")

    def run(*words: str) -> None:
        known = {**os.environ, "SUMO_HOME": str(home)}
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=known)

    trips = [sys.executable, str(home / "tools" / "randomTrips.py"), "-n", "net.net.xml", "-b", "0"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grid = "--grid --grid.number 1 --grid.attach-length 120 --default.lanenumber 2 --default.speed 11"
        lights = "--tls.set A0 --sidewalks.guess --crossings.guess --no-turnarounds"
        run(str(home / "bin" / "netgenerate"), *grid.split(), *lights.split(), "-o", "net.net.xml")
        run(*trips, "-o", "cars.xml", "-e", "40", "-p", "2", "--seed", "4", "--fringe-factor", "10", "--prefix", "car")
        run(*trips, "-o", "walks.xml", "-e", "30", "-p", "6", "--seed", "5", "--pedestrians", "--prefix", "walker")
        output = "--fcd-output fcd.xml --step-length 0.5 --fcd-output.attributes x,y --device.fcd.begin 12"
        run(
            *(str(home / "bin" / "sumo"), "-n", "net.net.xml", "-r", "cars.xml,walks.xml", "--seed", "1"),
            *("-e", str(12 + SECONDS), *output.split(), "--no-step-log", "--no-warnings"),
        )
        text = (folder / "fcd.xml").read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL)  # when and where it was made
    with (HERE / "crossing_sumo.fcd.xml.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()
