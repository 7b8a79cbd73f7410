"""Realisations of the small-scale fading that a run will not see: for robust plans and for previews.

Fading models may remember (a Clarke process keeps its phases), so samples come from copies of the models as they were
built, on streams of another name. Copies, not new objects: a user's class is constructed once per run.
"""

import copy
from collections.abc import Sequence

import numpy as np

from wirelessdl.arrays import FloatArray
from wirelessdl.channel.antennas import Antennas
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Chain, ChannelModel
from wirelessdl.contract import RAISED, capability, format_error
from wirelessdl.errors import ContractError
from wirelessdl.links import Instants, Links
from wirelessdl.streams import Streams


class FadingSamples:
    """Chains of the small-scale models among `models`, none of which may have been called yet."""

    def __init__(
        self,
        models: Sequence[tuple[str, ChannelModel]],
        condition: ChannelCondition,
        streams: Streams,
        antennas: Antennas | None = None,
    ):
        self._condition, self._streams, self._array = condition, streams, antennas or Antennas()
        fading = [(name, model) for name, model in models if capability(model, "small_scale")]
        self.models = [(name, self._copied(name, model)) for name, model in fading]
        self._all = models

    def copies_of_all(self) -> list[tuple[str, ChannelModel]]:
        """Every model of the chain as it was built; to be asked for before the run's own have been called."""
        return [(name, self._copied(name, model)) for name, model in self._all]

    def _chain(self, prefix: str) -> Chain:
        """The fading models afresh, on streams that begin with a prefix; line of sight is as in the run."""
        models = [(name, self._copied(name, model)) for name, model in self.models]
        several = self._array.count > 1
        return Chain(models, self._streams, prefix, phases=several, antennas=self._array)

    def gains(self, links: Links, mean_gain: FloatArray, count: int, offset: int = 0) -> FloatArray:
        """Realisations of |h|, `[count, links]`; `[1, links]` without fading. mean_gain: [links] root mean square.

        Of several antennas both are those of all together.
        """
        if not self.models:
            return mean_gain[None]
        numbers = range(offset, offset + count)
        drawn = [self._chain(f"robust.{number}").gains(Instants((links,), (0.0,))) for number in numbers]
        if self._array.count > 1:
            every = [one.antennas[0] for one in drawn if one.antennas is not None]
            return np.stack([mean_gain * np.sqrt(np.mean(np.abs(h) ** 2, axis=0)) for h in every])
        return np.stack([mean_gain * one.now[0] for one in drawn])

    def _copied(self, name: str, model: ChannelModel) -> ChannelModel:
        try:
            # all copies share the run's own condition: the line of sight is as in the run
            return copy.deepcopy(model, {id(self._condition): self._condition})
        except RAISED as error:
            raise ContractError(
                f"{name} cannot be copied ({format_error(error)}); a fading model is copied for robust "
                "plans and previews: give it a __deepcopy__, or keep open files and locks out of it"
            ) from error
