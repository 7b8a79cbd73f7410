"""A Dask cluster of separate processes on this machine: a scheduler, and workers under their nannies."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 600  # for what takes seconds: a machine may be very busy


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


class Loopback:
    """Started where it is made; whatever still runs is killed at the end."""

    def __init__(self, folder: Path, workers: int = 2):
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen] = []
        self._folder = folder
        port = self.address.rpartition(":")[2]
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        for _ in range(workers):
            self.nanny()

    def nanny(self) -> subprocess.Popen:
        """A worker with its nanny."""
        options = ["--nthreads", "1", "--memory-limit", "0", "--no-dashboard", "--death-timeout", "60"]
        return self._start("dask_worker", self.address, *options, "--local-directory", str(self._folder / "dask"))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen:
        log = (self._folder / f"{module}-{len(self.processes)}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
            # logs as short as those of the cluster that --jobs starts: Dask's own grow for a thousand tasks
            env={**os.environ, "OMP_NUM_THREADS": "1", "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "100"},
            cwd=self._folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """Kill every process and its children."""
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait(timeout=PATIENCE_S)

    def __enter__(self) -> "Loopback":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
