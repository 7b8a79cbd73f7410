"""Numbers in a scenario, and files, that would keep a machine busy for hours: each is one line, within seconds."""

import gzip
import subprocess
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import tiny

from wirelessdl import memory
from wirelessdl.errors import TraceError, WirelessdlError
from wirelessdl.network.mobility.fcd import SumoFcd
from wirelessdl.run.build import build
from wirelessdl.run.session import simulate
from wirelessdl.trace.run import open_run

RESTLESS = {"crashes": {"kind": "exponential", "up_s": 1e-5, "down_s": 1e-5}}
LONG = {"compute": {"kind": "constant", "seconds": 1e6}}


def moving(**mobility):
    return {"nodes": 4, "mobility": mobility}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"power": {"samples": 10_001}}, r"power\.samples is 10001; must be <= 10000"),
        (
            {"network": {"nodes": 4, "topology": {"kind": "erdos-renyi", "p": 0.1, "tries": 100_001}}},
            r"network\.topology\.tries is 100001; must be <= 100000",
        ),
        ({"network": moving(kind="random-walk", step_s=1e-7)}, r"network\.mobility\.step_s is 1e-07; must be >= 1e-06"),
        (
            {"network": moving(kind="gauss-markov", step_s=1e-7)},
            r"network\.mobility\.step_s is 1e-07; must be >= 1e-06",
        ),
        ({"network": moving(kind="random-waypoint", speed_mps=9e8)}, r"a leg would last .* must be at least 1e-6 s"),
        (
            {"faults": {"crashes": {"kind": "exponential", "up_s": 1e-6, "down_s": 1.0}}},
            r"faults\.crashes\.up_s is 1e-06; must be >= 1e-05",
        ),
        (
            {"faults": {"crashes": {"kind": "exponential", "up_s": 1.0, "down_s": 1e-6}}},
            r"faults\.crashes\.down_s is 1e-06; must be >= 1e-05",
        ),
        ({"time": {"policy": {"kind": "clocked", "period_s": 1e-9}}}, r"time\.policy\.period_s is 1e-09"),
    ],
)
def test_a_number_that_takes_for_ever_is_one_line(sections, words):
    with pytest.raises(WirelessdlError, match=words) as refused:
        build(tiny(**sections))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"network": moving(kind="random-walk", step_s=1e-6), "time": LONG}, r"step_s is 1e-06; the time .* steps"),
        ({"network": moving(kind="gauss-markov", step_s=1e-6), "time": LONG}, r"step_s is 1e-06; the time .* steps"),
        ({"network": moving(kind="random-waypoint", speed_mps=1e7), "time": LONG}, r"speed_mps is .* legs"),
        ({"faults": RESTLESS, "time": {"policy": {"kind": "clocked", "period_s": 1e6}}}, r"down 1000 times in round"),
        ({"faults": RESTLESS, "radio": {"bandwidth_hz": 1.0}}, r"down 1000 times in round 1"),
    ],
)
def test_short_steps_in_a_long_round_are_one_line(sections, words, tmp_path):
    """Each number is allowed by itself; together they would take hours."""
    with pytest.raises(WirelessdlError, match=words) as refused:
        simulate(tiny(**sections), out=tmp_path)
    assert "\n" not in str(refused.value)


def test_limits_of_the_process_bound_what_is_free():
    """`ulimit -d`: in a child, since a limit cannot be taken back."""
    code = (
        "import resource; from wirelessdl.memory import free_bytes; "
        "resource.setrlimit(resource.RLIMIT_DATA, (500_000_000, 500_000_000)); print(free_bytes())"
    )
    free = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert 0 < free < 500_000_000


# --- files that unpack to a thousand times their size

SMALL = 10**7  # bytes that are free here
FEW = {"dataset": {"kind": "synthetic", "samples": 100, "test_samples": 20}}
ARCHIVES = {
    "replay": {"channel": {"models": [{"model": "replay", "file": "air.npz"}]}},
    "dataset": {"learning": {"dataset": {"kind": "file", "path": "air.npz"}}},
    "partition": {"learning": {**FEW, "partition": {"kind": "file", "path": "air.npz", "column": "x"}}},
}


@pytest.mark.parametrize("where", ARCHIVES)
def test_an_archive_of_zeros_that_has_no_room_is_one_line(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zeros = np.zeros(10**6)
    np.savez_compressed("air.npz", **dict.fromkeys(("time_s", "tx", "rx", "gain", "x", "y"), zeros))
    monkeypatch.setattr(memory, "free_bytes", lambda: SMALL)
    with pytest.raises(WirelessdlError, match=r"needs 48 MB of memory, 10 MB are free: bring fewer"):
        build(tiny(**ARCHIVES[where]), device="cpu")


def test_a_recording_that_repeats_one_row_is_refused_where_it_has_no_room(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(dict.fromkeys(("time_s", "tx", "rx", "gain"), np.zeros(10**6))), "air.parquet")
    monkeypatch.setattr(memory, "free_bytes", lambda: SMALL)
    with pytest.raises(WirelessdlError, match=r"1000000 rows; needs 32 MB of memory, 10 MB are free: bring fewer"):
        build(tiny(channel={"models": [{"model": "replay", "file": "air.parquet"}]}), device="cpu")


def test_traffic_that_unpacks_without_end_is_one_line(tmp_path):
    """Elements that are not read are not kept, and no more of them is unpacked than 200 times the file."""
    (tmp_path / "t.xml.gz").write_bytes(gzip.compress(b"<fcd-export>" + b"<a/>" * 10**6))
    tracemalloc.start()
    with pytest.raises(ValueError, match="cannot be read: it unpacks to more than 200 times its size"):
        SumoFcd(np.zeros((3, 3)), lambda name: tmp_path / name, "t.xml.gz")
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def repeated(run, name, text=None):
    """The first row of a table of a run, thousands of times."""
    (path, *_) = sorted((run / name).glob("part-*.parquet"))
    table = pq.ParquetFile(path).read()
    row = table.slice(0, 1)
    if text is not None:
        row = row.set_column(row.schema.get_field_index("detail"), "detail", pa.array([text]))
    count = 20_000 if text is None else 2_000
    many = row.take(pa.array(np.zeros(count, dtype=np.int64))).replace_schema_metadata(table.schema.metadata)
    pq.write_table(many, path, compression="zstd", write_page_checksum=True)
    assert path.stat().st_size < 10**5


@pytest.mark.parametrize(("name", "text"), [("rounds", None), ("events", "x" * 50_000)])
def test_tables_of_a_run_that_repeat_one_row_are_refused_where_they_have_no_room(name, text, tmp_path, monkeypatch):
    run = simulate(tiny(), out=tmp_path).path
    repeated(run, name, text)
    monkeypatch.setattr(memory, "free_bytes", lambda: SMALL)
    with pytest.raises(TraceError, match=r"holds [0-9]+ (values|characters); needs .* of memory, 10 MB are free"):
        open_run(run).table(name)
