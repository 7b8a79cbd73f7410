"""Workers: a cluster of this machine's processes, or a Dask scheduler somewhere else.

Settings that matter here. One task at a time in a process, and cores // jobs threads of torch and BLAS in each, so that
runs do not fight over cores. No memory limit of Dask's: it would pause a worker for good, or kill it, over memory that
a run needs. Workers of this machine do not hear Ctrl-C: the driver does, and lets runs stop after their round.

Whoever reaches a scheduler can run code on it. That of this machine takes TLS connections alone, with a key that is
made for it and never leaves the memory of its processes; another user of the machine has none.
"""

import contextlib
import logging
import os
import queue
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from wirelessdl.errors import StudyError, quote

_CONNECT_S = 5.0
_POLL_S = 0.25
_MIN_QUEUED_TASKS = 64  # that a scheduler holds, so that it can tell how many workers would be of use
_SETTINGS = {
    "distributed.scheduler.allowed-failures": 1,  # a run whose worker dies is tried once more
    "distributed.scheduler.worker-saturation": 1.0,  # tasks wait in one place: none is lost with another's worker
    "distributed.admin.low-level-log-length": 100,
    "distributed.admin.tick.limit": "1h",  # a run may hold Python's lock for seconds: no reason to complain
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": f"{_CONNECT_S}s",
}
# pages of the local scheduler and its workers, which everybody on the machine could read
_NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class SchedulerLost(StudyError):
    """The scheduler does not answer any more."""


@dataclass(frozen=True)
class Done:
    """A task that is over: what it returned, or one line on what became of it. key: as submitted.

    final: it was tried again already.
    """

    key: str
    value: Any = None
    error: str | None = None
    final: bool = False


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class DaskCluster:
    """A few tasks in flight at a time; only what is finished is handed out, in the order of finishing."""

    def __init__(self, client: Any, address: str = ""):
        self._client, self._address = client, address
        self._token, self._submitted = uuid.uuid4().hex[:12], 0
        self._flying: dict[str, Any] = {}
        self._finished: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    @property
    def flying(self) -> int:
        return len(self._flying)

    def workers(self) -> int:
        """Workers that there are now; a process runs one task at a time, whatever its threads."""
        self._require_scheduler()
        try:
            return len(self._client.nthreads())
        except (OSError, TimeoutError) as error:
            raise self._lost() from error

    def has_room(self) -> bool:
        """Whether another task should be submitted now."""
        return self.flying < _MIN_QUEUED_TASKS or self.flying < 2 * self.workers()

    def submit(self, key: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Send a task on its way. key: by which it will be known, none of those in flight."""
        self._require_scheduler()
        self._submitted += 1
        # a pair: the scheduler keeps statistics by its first half
        name = (f"{function.__name__}-{self._token}", f"{key}.{self._submitted}")
        future = self._client.submit(function, *arguments, key=name, pure=False, retries=0)
        self._flying[key] = future
        future.add_done_callback(lambda over: self._finished.put((key, over)))

    def finished(self) -> Iterator[Done]:
        """Tasks that are over by now; waits a moment where there are none."""
        self._require_scheduler()
        timeout: float | None = _POLL_S
        while True:
            try:
                key, future = self._finished.get(timeout=timeout) if timeout else self._finished.get_nowait()
            except queue.Empty:
                self._require_scheduler()
                return
            timeout = None
            if self._flying.get(key) is future:  # not dropped since
                del self._flying[key]
                yield self._done(key, future)

    def drop_all(self) -> None:
        """Forget what has not been finished."""
        with contextlib.suppress(Exception):
            self._client.cancel(list(self._flying.values()), force=True)
        self._flying.clear()

    def _done(self, key: str, future: Any) -> Done:
        from distributed import KilledWorker

        status = future.status
        if status == "finished":
            return Done(key, self._answer(future.result))
        if status in ("cancelled", "lost"):
            self._require_scheduler()
            return Done(key, error="the scheduler dropped it")
        error = self._answer(future.exception)
        if isinstance(error, KilledWorker):
            return Done(key, error="its worker died, and the next one, too: out of memory, or killed", final=True)
        return Done(key, error=quote(f"{type(error).__name__}: {' '.join(str(error).split())}", 1000))

    def _answer(self, question: Callable[..., Any]) -> Any:
        """An answer from the scheduler, however long it takes while the scheduler is there."""
        while True:
            try:
                return question(timeout=_CONNECT_S)
            except TimeoutError:
                self._require_scheduler()

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._lost()

    def _lost(self) -> SchedulerLost:
        return SchedulerLost(
            f"{f'the scheduler at {quote(self._address)}' if self._address else 'the cluster'} is gone"
        )


@contextlib.contextmanager
def open_cluster(*, jobs: int, threads: int, scheduler: str | None = None) -> Iterator[DaskCluster]:
    """Workers to run a study on: `jobs` processes of this machine, or those of a scheduler."""
    import dask
    import distributed  # noqa: F401  before: settings of a section that is not there yet would take it along as they leave

    with dask.config.set(_SETTINGS), _quiet():
        opened = _remote(scheduler) if scheduler else _local(jobs, threads)
        with opened as client:
            yield DaskCluster(client, scheduler or "")


@contextlib.contextmanager
def _remote(address: str) -> Iterator[Any]:
    from distributed import Client, Security

    try:
        if address.startswith("tls:") and Security().get_connection_args("client")["ssl_context"] is None:
            raise OSError("Dask's configuration has no certificate: distributed.comm.tls")
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise StudyError(
            f"--scheduler is {quote(address)}; no scheduler answers there within {_CONNECT_S:g} s "
            f"({quote(' '.join(str(error).split()) or type(error).__name__, 80)}): start one with `dask scheduler`, "
            "or leave --scheduler out"
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=_CONNECT_S)


@contextlib.contextmanager
def _local(jobs: int, threads: int) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster, Security

    environment = {**dict.fromkeys(_THREADS, str(threads)), "OMP_WAIT_POLICY": "PASSIVE"}
    before = {name: os.environ.get(name) for name in environment}
    try:
        with dask.config.set({"distributed.nanny.pre-spawn-environ": environment, **_NO_PAGES}):
            try:
                with _signals_blocked():
                    cluster = LocalCluster(
                        n_workers=jobs,
                        threads_per_worker=1,
                        processes=True,
                        memory_limit=0,
                        preload=__name__,  # calls dask_setup in every worker, also in one that replaces another
                        dashboard_address="127.0.0.1:0",  # a free port: studies side by side do not meet
                        silence_logs=logging.CRITICAL,
                        security=Security.temporary(),
                    )
                    client = Client(cluster, set_as_default=False)
            except (RuntimeError, OSError, TimeoutError) as error:
                raise StudyError(
                    f"workers cannot be started: {quote(' '.join(str(error).split()), 120)}; in a script, call sweep "
                    'under `if __name__ == "__main__":`'
                ) from None
            try:
                yield client
            finally:
                with contextlib.suppress(Exception):
                    client.close(timeout=_CONNECT_S)
                with contextlib.suppress(Exception):
                    cluster.close(timeout=_CONNECT_S)
    finally:  # the settings of workers pass through this process's own environment
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def dask_setup(_: object) -> None:
    """Send what runs print in a worker to standard error: standard output is the driver's, for its results."""
    sys.stdout = sys.stderr


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Threads and processes started meanwhile hear neither Ctrl-C nor the end of the terminal."""
    resource_tracker.ensure_running()  # its start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask tells of every lost connection in several lines; what matters is told by the driver in one."""
    import distributed  # noqa: F401  its loggers have levels of their own

    names = {"distributed", "tornado", "asyncio"}
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.partition(".")[0] in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)
