"""Robust reception: how a receiver combines what it gets, where senders may lie (`learning.robust`).

    s_i = own_i w_i + (1 - own_i) R({v_p}, weights W_p, limits l_p)

    v_p   one value of receiver i, as a model: a message under digital, a turn with its one sender under TDMA; a group's
          sum, divided by its weights, where signals add on air. Groups (`groups`) are drawn anew by the air's public
          draws: in every frame under alignment "all", where each sends in a turn of its own; in every turn of a hub or
          server, which collects one group after another. They cost airtime, not power
    W_p   share of the value in the plain mean, which R = sum W_p v_p / sum W_p gives back
    l_p   mean square of a coordinate that an honest value has at most, from public numbers:
          R^2 + sum_j a_pj^2 n_j + N_p

    R     projection radius over sqrt(m), n_j: variance of the noise that j sends, a_pj: weights within the value, N_p:
          receiver noise in it. Models lie in the ball, noise of senders is independent or, in pairs, cancels

Among what hubs hold, a_pj follow holdings from turn to turn, as means carry them. **Totals stay**: what a receiver
makes of what it received is post-processing. The mean of the network is not kept, and pairs do not cancel exactly.

To add one: a module here with `Member`, a line in RULES, a test, a row of docs/attackers.md. Your class,
`kind = "file.py:Class"`, has `combine(values, weight, limit)`: tensors [n, m], [n], [n]; it returns [m], and remembers
nothing in self.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wirelessdl.contract import Guard, Memory, checked_array

if TYPE_CHECKING:
    from torch import Tensor

    from wirelessdl.scenario.schema import Scenario

RULES = {
    "none": "wirelessdl.learning.robust.none",
    "power-limit": "wirelessdl.learning.robust.power_limit",
    "median": "wirelessdl.learning.robust.median",
    "trimmed-mean": "wirelessdl.learning.robust.trimmed_mean",
}
_MAX_PILOTS = 254  # of a turn of a hub, each with draws of its own


def rules() -> dict[str, Any]:
    """Classes of all built-in rules, by name."""
    return {name: import_module(path).Member for name, path in RULES.items()}


@dataclass(frozen=True, eq=False)
class Robust:
    """A rule as a scenario sets it."""

    name: str
    rule: Any

    def combine(self, values: "Tensor", weight: "Tensor", limit: "Tensor") -> "Tensor":
        """One value of several, `[m]`; held to its contract where the class is the user's."""
        from torch import Tensor, as_tensor

        if ":" not in self.name:
            combined: Tensor = self.rule.combine(values, weight, limit)
            return combined
        name, memory, precision = (
            f"learning.robust: {self.name}.combine",
            self._memory,
            values.new_zeros(0).cpu().numpy(),
        )
        with Guard(name):
            found = self.rule.combine(values.clone(), weight.clone(), limit.clone())
            found = found.detach().cpu().numpy() if isinstance(found, Tensor) else found
        memory.require_none()
        checked = checked_array(
            name, found, tuple(values.shape[1:]), "one number per coordinate", dtype=precision.dtype
        )
        return as_tensor(checked).to(values)

    @cached_property
    def _memory(self) -> Memory:
        return Memory(f"learning.robust: {self.name}.combine", self.rule, "use what it is given")


def groups_of(parameters: Mapping[str, Any]) -> int:
    """Groups into which senders are divided. Raises ValueError."""
    groups = parameters.get("groups", 1)
    if type(groups) is not int or not 1 <= groups <= 64:
        raise ValueError(f"groups is {groups!r}; must be an integer from 1 to 64")
    return groups


def refuse(scenario: "Scenario") -> None:
    """Raise ValueError for what a robust receiver cannot take apart."""
    part, radio = scenario.learning.robust, scenario.radio
    if part.name == "none" or scenario.silent:
        return
    what, access, alignment = f'learning.robust is "{part.name}"', radio.access.name, getattr(radio, "alignment", "")
    try:
        groups = groups_of(part.parameters)
    except ValueError as error:
        raise ValueError(f"learning.robust.{error}") from None
    single, hubs = access in ("tdma", "digital"), access == "oac" and alignment in ("hubs", "server")
    ordered, passes = part.name in ("median", "trimmed-mean"), radio.mixing_passes or scenario.learning.closing_passes
    apart = radio.cfo_hz, radio.timing_offset_s, radio.timing_error_s, float(radio.flight_time)
    clashes = (
        (not single and not hubs and (access, alignment) != ("oac", "all"),
         f'{"radio.access" if access != "oac" else "radio.alignment"} "{alignment if access == "oac" else access}"',
         "nothing there has several values", 'use "all", "hubs" or "server", or access "tdma" or "digital"'),
        (single and groups > 1, f'groups = {groups} under "{access}"', "each sender is a value there", "leave it out"),
        (not single and ordered and groups < 3, f"groups = {groups}", "fewer than three values have no order to trust",
         "set groups = 3 or more"),
        (not hubs and passes, "mixing or closing passes", "robust values are no mixing matrix", "set them to 0"),
        (not hubs and any(value != 0.0 for value in apart) and access != "digital", "clocks or carriers apart",
         "symbols of several values overlap", "set radio.cfo_hz and its timing to 0, flight_time to false"),
        (radio.cancellation_db != float("inf"), "a finite radio.cancellation_db", "a node would hear itself",
         "leave it at inf"),
        (groups > 1 and scenario.power.objective != "own-noise", f'power.objective "{scenario.power.objective}"',
         "other groups' noise hides nobody", 'set objective = "own-noise"'),
        (bool(scenario.privacy.gram_share), "privacy.gram_share", "its triangles are no models", "set it to 0"),
        (hubs and (groups + 1) * getattr(radio, "subslots", 1) > _MAX_PILOTS, f"groups = {groups}, many radio.subslots",
         f"a turn has {_MAX_PILOTS} pilots at most", "lower either"),
        (scenario.learning.update.name == "push-sum", 'learning.update "push-sum"', "its weights need a mixing matrix",
         'use "sgd"'),
    )  # fmt: skip
    for there, other, why, remedy in clashes:
        if there:
            raise ValueError(f"{what} with {other}; {why}: {remedy}")
