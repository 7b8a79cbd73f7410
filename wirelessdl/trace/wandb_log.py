"""The rounds table for Weights & Biases, while a run writes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wirelessdl.errors import TraceError


class WandbLog:
    """`--log wandb`: the rounds table, as it is written, to an offline run of Weights & Biases in ./wandb.

    No key, and nothing is sent: `wandb sync` is the user's own decision. Every column by its name, step: the round.
    """

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise TraceError(
                "--log wandb needs a package that is not installed; install it with: pip install wirelessdl[wandb]"
            ) from None
        self._wandb = wandb
        self._run: Any = None

    def begin(self, folder: Path, scenario: dict[str, Any]) -> None:
        """The run in this directory begins, or goes on."""
        settings = self._wandb.Settings(silent=True, console="off", disable_git=True, save_code=False)
        self._run = self._wandb.init(
            project="wirelessdl", name=folder.name, config=scenario, mode="offline", settings=settings
        )

    def rounds(self, columns: Mapping[str, Any]) -> None:
        """Rows of the rounds table; what is null there is left out."""
        for n, round in enumerate(np.asarray(columns["round"]).tolist()):
            row = {name: np.ma.asarray(values)[n] for name, values in columns.items() if name != "round"}
            numbers = {name: value for name, value in row.items() if value is not np.ma.masked and _is_number(value)}
            self._run.log({name: float(value) for name, value in numbers.items()}, step=int(round))

    def finish(self, *, sound: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=0 if sound else 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))
