"""A Dask cluster within this process, for tests that do not need processes."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import tomli_w
from conftest import tiny_table

from wirelessdl.study import cluster as cluster_module
from wirelessdl.study import engine
from wirelessdl.study.cluster import _SETTINGS, DaskCluster, _quiet


@contextmanager
def in_process(**_: object) -> Iterator[DaskCluster]:
    """As open_cluster."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(_SETTINGS),
        _quiet(),
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield DaskCluster(client)


@contextmanager
def one_for_all() -> Iterator[DaskCluster]:
    """All studies made within share one such cluster."""
    with in_process() as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "open_cluster", lambda **_: nullcontext(cluster))
        patch.setattr(cluster_module, "_POLL_S", 0.02)
        yield cluster


def quick_table(**sections: dict) -> dict:
    """Runs of a few hundredths of a second."""
    learning = {"dataset": {"kind": "synthetic", "features": 6, "samples": 80, "classes": 3}, "batch_size": 4}
    return tiny_table(**{**sections, "learning": {**learning, **sections.get("learning", {})}})


def write_quick(folder: Path, **sections: dict) -> Path:
    path = folder / "tiny.toml"
    path.write_text(tomli_w.dumps(quick_table(**sections)))
    return path
