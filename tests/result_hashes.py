"""One hash per run of what the tables hold, to show that a change of the code changes no result.

    python tests/result_hashes.py                    # the package beside this folder
    python tests/result_hashes.py --package OTHER    # the package in another checkout, for comparison
    python tests/result_hashes.py --only quickstart --columns

Runs 25 rounds of every bundled scenario, and whole runs of those in which nodes come and go, as separate processes
with one thread each. A hash is over the bytes of every column listed in COLUMNS, under the names of trace schema 1;
renamed columns and words are mapped back first (RENAMED, WORDS), so the same script reads older and newer tables.
Equal hashes are expected at equal versions, thread count and processor; for that reason it is a script, not a test.
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
# whole runs: name, scenario, overrides
WHOLE = [
    ("churn_k20 (whole)", "churn_k20", []),
    ("battery_k12 (whole)", "battery_k12", []),
    ("stragglers_clocked_k20 (whole)", "stragglers_clocked_k20", []),
    ("quickstart tdma", "quickstart", ["radio.access=tdma"]),
    ("quickstart half duplex", "quickstart", ["radio.duplex=half"]),
    ("quickstart budget", "quickstart", ["privacy.budget_total=0.08"]),
    ("quickstart paper", "quickstart", ["privacy.protocol=paper", "privacy.clipping=batch", "power.objective=sum"]),
]
COLUMNS = {
    "rounds": "round time_s accuracy_mean accuracy_min accuracy_max loss_mean consensus_distance learning_rate "
    "noise_std epsilon_link_max epsilon_own_max epsilon_total_max violations active_nodes up_nodes spectral_gap "
    "slots airtime_s energy_j",
    "nodes": "round node time_s x_m y_m height_m up present transmitted accuracy loss grad_norm excess_loss alpha "
    "beta power_w backoff_db self_interference_w multiplier carried weight_sum energy_tx_j energy_pilot_j "
    "energy_rx_j energy_compute_j energy_j battery_j",
    "links": "round tx rx neighbour distance_m gain gain_est phase_rad weight snr_db epsilon",
    "events": "time_s node kind detail",
    "privacy": "tx rx view status accountant adjacency sampler clipping delta rounds epsilon_total",
}
RENAMED = {
    ("rounds", "epsilon_total_max"): "epsilon_own_bound",
    ("nodes", "carried"): "sent_multiplier",
    ("nodes", "weight_sum"): "row_sum",
}
WORDS = {("privacy", "status"): {"unproven": "claim"}, ("privacy", "accountant"): {"rdp-wang19": "paper"}}


def column_bytes(column: pa.ChunkedArray, words: dict[str, str]) -> bytes:
    """Validity and values of a column, whatever its encoding."""
    values = column.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    valid = np.asarray(values.is_valid())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        texts = [words.get(text, text) for text in values.to_pylist()]
        return valid.tobytes() + json.dumps(texts).encode()
    filled = values.fill_null(False) if pa.types.is_boolean(values.type) else values.fill_null(0)
    return valid.tobytes() + filled.to_numpy(zero_copy_only=False).tobytes()


def run_hashes(folder: Path) -> dict[str, str]:
    """A hash for each `table.column` of a run."""
    found = {}
    for table, names in COLUMNS.items():
        parts = sorted((folder / table).glob("*.parquet"))
        if not parts:
            continue
        stored = pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts])
        for name in names.split():
            here = RENAMED.get((table, name), name)
            column = stored.column(here if here in stored.column_names else name)
            found[f"{table}.{name}"] = hashlib.sha256(column_bytes(column, WORDS.get((table, name), {}))).hexdigest()
    return found


def run(package: Path, scenario: str, options: list[str]) -> dict[str, str]:
    """Run a scenario in a process of its own and hash what it wrote."""
    env = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as out:
        file = package / "scenarios" / f"{scenario}.toml"
        command = [sys.executable, "-m", "wirelessdl", "run", str(file), "--out", out, "--quiet", *options]
        done = subprocess.run(command, env=env, cwd=package, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": (done.stderr or done.stdout).strip().splitlines()[-1]}
        return run_hashes(next(path for path in Path(out).iterdir() if path.is_dir()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=ROOT, help="checkout whose package and scenarios run")
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    parser.add_argument("--skip", default="", help="no runs whose name contains this")
    parser.add_argument("--columns", action="store_true", help="print a hash for every column")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    package = arguments.package.resolve()
    bundled = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
    jobs = [(f"{name} ({ROUNDS} rounds)", name, ["--rounds", str(ROUNDS)]) for name in bundled]
    jobs += [(name, scenario, [text for o in sets for text in ("--set", o)]) for name, scenario, sets in WHOLE]
    jobs = [job for job in jobs if arguments.only in job[0] and not (arguments.skip and arguments.skip in job[0])]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = [(name, pool.submit(run, package, scenario, options)) for name, scenario, options in jobs]
        for name, future in found:
            hashes = future.result()
            whole = hashes.get("failed") or hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:16]
            print(f"{name:34s} {whole}", flush=True)
            if arguments.columns:
                for column, value in hashes.items():
                    print(f"    {column:30s} {value[:16]}", flush=True)


if __name__ == "__main__":
    main()
