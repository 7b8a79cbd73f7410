"""One hash per run of all it wrote, to show that a change of the code changes no result.

    python tests/result_hashes.py > before.txt       # the package beside this folder
    python tests/result_hashes.py --package OTHER    # the package in another checkout
    python tests/result_hashes.py --only quickstart --columns
    python tests/result_hashes.py --against before.txt   # runs again; says what differs, exit code 1

Runs 25 rounds of every bundled scenario, whole runs of those in which nodes come and go, and one of every way across
the air and of every kind of noise (WHOLE), each with one torch thread and with two, as separate processes. A hash is
over the bytes of every column of every table, and over the final models. Equal hashes are expected at equal
versions, thread count and processor; for that reason it is a script, not a test.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent
ROUNDS = 25
PAIRWISE = ["privacy.noise=pairwise", "privacy.coalition=1", "privacy.pair_ratio=1.5"]
# whole runs: name, scenario, overrides
WHOLE = [
    ("churn_k20 (whole)", "churn_k20", []),
    ("battery_k12 (whole)", "battery_k12", []),
    ("stragglers_clocked_k20 (whole)", "stragglers_clocked_k20", []),
    ("urban_er_k20 (whole)", "urban_er_k20", []),
    ("quickstart tdma", "quickstart", ["radio.access=tdma"]),
    ("quickstart digital", "quickstart", ["radio.access=digital", "power.objective=own-noise"]),
    ("digital churn", "churn_k20", ["radio.access=digital", "power.objective=own-noise", "scenario.rounds=40"]),
    ("quickstart half duplex", "quickstart", ["radio.duplex=half"]),
    ("quickstart budget", "quickstart", ["privacy.budget_total=0.08"]),
    ("quickstart paper", "quickstart", ["privacy.protocol=paper", "privacy.clipping=batch", "power.objective=sum"]),
    ("quickstart pairwise", "quickstart", [*PAIRWISE, "power.objective=own-noise"]),
    ("pairwise groups", "oac_k10", [*PAIRWISE, "power.objective=own-noise", "privacy.pairs={groups=2}"]),
    ("pairwise neighbours", "quickstart", [*PAIRWISE, "power.objective=own-noise", "privacy.pairs=neighbours"]),
    ("pairwise churn", "churn_k20", [*PAIRWISE, "power.objective=own-noise", "scenario.rounds=60"]),
    ("passes", "quickstart", ["power.objective=own-noise", "radio.mixing_passes=4", "learning.closing_passes=6"]),
    ("wideband (whole)", "wideband_factory_k10", []),
    ("float64", "quickstart", ["learning.dtype=float64", "scenario.rounds=40"]),
    ("poisson", "quickstart", ["learning.sampling=poisson", "scenario.rounds=40"]),
    ("physical interference", "quickstart", ["radio.interference=physical", "scenario.rounds=40"]),
    ("offsets", "quickstart", ["radio.phase_error_rad=0.05", "radio.cfo_hz=5", "scenario.rounds=40"]),
]
MODELS = """
import hashlib, sys, wirelessdl
try:
    models = wirelessdl.open_run(sys.argv[1]).final_models()
except wirelessdl.WirelessdlError as error:
    print("none:", type(error).__name__)
else:
    whole = hashlib.sha256()
    for model in models:
        for name, values in model.items():
            whole.update(name.encode() + values.numpy().tobytes())
    print(whole.hexdigest())
"""


def column_bytes(column: pa.ChunkedArray) -> bytes:
    """Validity and values of a column, whatever its encoding."""
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    valid = np.asarray(values.is_valid())
    if not (pa.types.is_boolean(values.type) or pa.types.is_primitive(values.type)):  # texts, lists
        return valid.tobytes() + json.dumps(values.to_pylist(), default=str).encode()
    filled = values.fill_null(False) if pa.types.is_boolean(values.type) else values.fill_null(0)
    return valid.tobytes() + filled.to_numpy(zero_copy_only=False).tobytes()


def run_hashes(folder: Path, env: dict[str, str]) -> dict[str, str]:
    """A hash for each `table.column` of a run, and for its final models."""
    found = {}
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        parts = sorted(table.glob("*.parquet"))
        if not parts:
            continue
        stored = pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts])
        for name in stored.column_names:
            found[f"{table.name}.{name}"] = hashlib.sha256(column_bytes(stored.column(name))).hexdigest()
    command = [sys.executable, "-c", MODELS, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    found["final_models"] = done.stdout.strip() or done.stderr.strip().splitlines()[-1]
    return found


def run(package: Path, scenario: str, options: list[str], threads: int) -> dict[str, str]:
    """Run a scenario in a process of its own and hash what it wrote."""
    env = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    with tempfile.TemporaryDirectory() as out:
        file = package / "scenarios" / f"{scenario}.toml"
        command = [sys.executable, "-m", "wirelessdl", "run", str(file), "--out", out, "--quiet", *options]
        done = subprocess.run(command, env=env, cwd=package, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": (done.stderr or done.stdout).strip().splitlines()[-1]}
        return run_hashes(next(path for path in Path(out).iterdir() if path.is_dir()), env)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=ROOT, help="checkout whose package and scenarios run")
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    parser.add_argument("--skip", default="", help="no runs whose name contains this")
    parser.add_argument("--columns", action="store_true", help="print a hash for every column")
    parser.add_argument("--against", type=Path, help="what an earlier call printed: name what differs")
    parser.add_argument("--threads", type=int, action="append", help="torch threads; by default 1 and 2")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    package = arguments.package.resolve()
    before = {}
    if arguments.against is not None:
        rows = (line.rsplit(maxsplit=1) for line in arguments.against.read_text().splitlines() if line[:1].strip())
        before = {name.strip(): value for name, value in rows}
    bundled = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
    jobs = [(f"{name} ({ROUNDS} rounds)", name, ["--rounds", str(ROUNDS)]) for name in bundled]
    jobs += [(name, scenario, [text for o in sets for text in ("--set", o)]) for name, scenario, sets in WHOLE]
    jobs = [job for job in jobs if arguments.only in job[0] and not (arguments.skip and arguments.skip in job[0])]
    differ = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = [
            (f"{name}, {threads} thread{'s' * (threads > 1)}", pool.submit(run, package, scenario, options, threads))
            for threads in arguments.threads or (1, 2)
            for name, scenario, options in jobs
        ]
        for name, future in found:
            hashes = future.result()
            whole = hashes.get("failed") or hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:16]
            other = f"   differs from {before.get(name, 'nothing')}" if before and before.get(name) != whole else ""
            differ += bool(other)
            print(f"{name:46s} {whole}{other}", flush=True)
            if arguments.columns:
                for column, value in hashes.items():
                    print(f"    {column:30s} {value[:16]}", flush=True)
    if before:
        print(f"{differ} of {len(found)} differ", file=sys.stderr)
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
