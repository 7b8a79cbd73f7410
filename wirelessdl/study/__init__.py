"""Studies: many runs of one scenario on dask.distributed, in one directory with one index."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirelessdl.study.plan import Plan
    from wirelessdl.trace.study import Row


class Listener:
    """Hears how a study goes on; says nothing."""

    def checking(self, done: int, total: int) -> None: ...

    def started(self, study: Path, plan: "Plan", rows: Mapping[str, "Row"], workers: int) -> None: ...

    def waiting(self) -> None:
        """There is no worker."""

    def over(self, row: "Row") -> None:
        """A run is finished, interrupted or failed."""

    def retrying(self, row: "Row") -> None:
        """A run failed and is tried once more."""

    def stopping(self, running: int) -> None: ...
