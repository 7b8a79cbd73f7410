"""The network as processes of the user's see it, and change it, while time passes.

    [events]
    processes = ["mine.py:traffic", { kind = "mine.py:Ambulance", at_s = 0.2 }]

    def traffic(env, network, rng):             # a generator, as SimPy has them; a class has a method `process`
        yield network.wait(0.25)
        network.block(tx=0, rx=3)

A frame is whole: what was decided when it opened happens, and a change within it takes effect when the next one opens.
Every change is a row of the events table, at the nanosecond at which it was made.

Nothing here depends on data (condition a of the proof): time, places, who is up, and batteries by nominal use. So the
nodes that a process takes away, and the links that it blocks, tell nothing about samples. A process draws from the rng
it is handed; a resumed run lets it live through the same time once more.

Scope and limitations: lowering a node's power is a loss on all links that leave it. Energy and batteries count the
budget all the same. The coherence time that cuts a payload into slots knows nothing of what processes move.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.errors import ContractError
from wirelessdl.links import Geometry, Links
from wirelessdl.scenario.section import require_node
from wirelessdl.units import dbm_to_w, to_ns, to_s

GeometryAt = Callable[[float], Geometry]
CAUSE = "process"  # by which nodes are down that processes took down


class LiveNetwork:
    """What a process is handed besides SimPy's `env` and its `rng`."""

    def __init__(self, nodes: int, geometry: GeometryAt):
        self._nodes, self._geometry = nodes, geometry
        self._keeper: Any = None  # `sim.simulation.Outages`: SimPy's clock, the medium, and who is down
        self._reset()

    def _reset(self) -> None:
        self._moves: dict[int, tuple[float, FloatArray, FloatArray]] = {}  # since when, place then, velocity
        self._amplitude, self._jam_w = np.ones(self._nodes), np.zeros(self._nodes)
        self._barred: set[int] = set()

    def begin(self, keeper: Any) -> None:
        """Time begins at zero, and nothing is changed yet."""
        self._keeper = keeper
        self._reset()

    # what a process may see

    @property
    def nodes(self) -> int:
        """Number of nodes K."""
        return self._nodes

    @property
    def now_s(self) -> float:
        """Simulated time, s; `env.now` is the same in whole ns."""
        return to_s(int(self._keeper.env.now))

    @property
    def position_m(self) -> FloatArray:
        """Where nodes are now, `[K, 3]`: x, y and height, m."""
        return self.placed(self._geometry(self.now_s), self.now_s).position_m.copy()

    @property
    def is_up(self) -> BoolArray:
        """Which nodes run, `[K]`."""
        return np.array(self._keeper.medium.states.up)

    @property
    def battery_j(self) -> FloatArray:
        """What batteries hold by nominal use, `[K]` J; inf without one."""
        return np.array(self._keeper.medium.battery_j)

    # what it may do

    def wait(self, seconds: float) -> Any:
        """The event of so many seconds from now: `yield network.wait(0.5)`."""
        return self._keeper.env.timeout(to_ns(_number("seconds", seconds, 0.0)))

    def take_down(self, node: int, *, for_good: bool = False) -> None:
        """The node stops, as in a crash, until a process brings it up. Frames go on among the others.

        Where nobody runs any more, a barrier waits for it unless it is gone for good.
        """
        self._keeper.down(self._node(node), CAUSE, "by a process", returns=not for_good)

    def bring_up(self, node: int) -> None:
        """End what `take_down` began; a crash or a departure besides goes on."""
        self._keeper.up(self._node(node), CAUSE)

    def move(self, node: int, position_m: Any, velocity_mps: Any = (0.0, 0.0, 0.0)) -> None:
        """From now on the node is at x, y, height, m, and goes on from there at this velocity, not by its mobility."""
        place, velocity = (np.asarray(value, dtype=np.float64) for value in (position_m, velocity_mps))
        if place.shape != (3,) or velocity.shape != (3,) or not np.isfinite([place, velocity]).all() or place[2] <= 0:
            raise ContractError("position_m and velocity_mps must be x, y and height, the height above 0")
        self._moves[self._node(node)] = (self.now_s, place, velocity)
        self._changed(node, f"moved to {_row(place)} m, {_row(velocity)} m/s")

    def charge(self, node: int, energy_j: float) -> None:
        """Add to the node's battery; one that has stopped for want of it stays so."""
        self._keeper.medium.battery_j[self._node(node)] += _number("energy_j", energy_j, 0.0)
        self._changed(node, f"battery {energy_j:+g} J")

    def lower_power(self, node: int, by_db: float) -> None:
        """The node sends so many dB below its budget; 0: at its budget again."""
        self._amplitude[self._node(node)] = 10.0 ** (-_number("by_db", by_db, 0.0) / 20.0)
        self._changed(node, f"power {by_db:g} dB below its budget")

    def jam(self, power_dbm: float, nodes: Any = None) -> None:
        """So much noise at the receivers of these nodes, all if None, in place of what was there; -inf: none."""
        power = float(power_dbm)
        if not (power <= 200.0):
            raise ContractError(f"power_dbm is {power:g}; must be at most 200, or -inf for no jamming")
        for node in range(self._nodes) if nodes is None else [self._node(node) for node in np.atleast_1d(nodes)]:
            self._jam_w[node] = 0.0 if math.isinf(power) else float(dbm_to_w(np.array(power)))
            self._changed(node, f"jammed by {power:g} dBm")

    def block(self, tx: int, rx: int, *, both_ways: bool = True) -> None:
        """Nothing gets from tx to rx, nor back; `unblock` ends it."""
        self._bar(tx, rx, both_ways, True)

    def unblock(self, tx: int, rx: int, *, both_ways: bool = True) -> None:
        """End what `block` began."""
        self._bar(tx, rx, both_ways, False)

    def emit(self, detail: str, node: int | None = None) -> None:
        """A row of the events table: kind `process`, with words of your own."""
        words = str(detail).encode("utf-8", "backslashreplace").decode()  # a table holds no halves of surrogate pairs
        self._changed(node if node is None else self._node(node), words)

    # what a frame makes of it

    def placed(self, geometry: Geometry, time_s: float) -> Geometry:
        """The geometry with nodes where processes moved them."""
        if not self._moves:
            return geometry
        position, velocity = geometry.position_m.copy(), geometry.velocity_mps.copy()
        for node, (since_s, place, speed) in self._moves.items():
            position[node], velocity[node] = place + speed * (time_s - since_s), speed
        if (position[:, 2] <= 0).any():
            raise ContractError(
                f"events.processes: node {int(np.argmin(position[:, 2]))} sinks below the ground at {time_s:g} s"
            )
        return Geometry(position, velocity)

    @property
    def moved(self) -> bool:
        """Whether any node is where its mobility does not have it."""
        return bool(self._moves)

    def amplitude(self) -> FloatArray | None:
        """By how much every node's amplitude is lowered, `[K]`; None where none is."""
        return None if (self._amplitude == 1.0).all() else self._amplitude

    def jam_w(self) -> FloatArray | None:
        """Jamming power at every receiver, `[K]` W; None without any."""
        return self._jam_w.copy() if self._jam_w.any() else None

    def blocked(self, links: Links) -> BoolArray | None:
        """Which links are blocked, `[links]`; None where none is."""
        return np.isin(links.number, sorted(self._barred)) if self._barred else None

    def state(self) -> bytes:
        """All that processes have changed by now, for checksums."""
        moves = [(node, since_s, *place, *speed) for node, (since_s, place, speed) in sorted(self._moves.items())]
        return repr((moves, self._amplitude.tolist(), self._jam_w.tolist(), sorted(self._barred))).encode()

    def _bar(self, tx: int, rx: int, both_ways: bool, barred: bool) -> None:
        tx, rx = self._node(tx), self._node(rx)
        if tx == rx:
            raise ContractError(f"tx and rx are both {tx}; a link has two ends")
        pairs = {rx * self._nodes + tx} | ({tx * self._nodes + rx} if both_ways else set())
        self._barred = self._barred | pairs if barred else self._barred - pairs
        what = f"{tx} {'<->' if both_ways else '->'} {rx}"
        self._changed(None, f"link {what} {'blocked' if barred else 'open again'}")

    def _node(self, node: Any) -> int:
        number = int(node) if isinstance(node, np.integer) else node
        try:
            require_node("node", number, self._nodes)
        except ValueError as error:
            raise ContractError(str(error)) from None
        return int(number)

    def _changed(self, node: int | None, detail: str) -> None:
        self._keeper.note(node, "process", detail)


def _number(name: str, value: Any, least: float) -> float:
    number = float(value)
    if not (least <= number < math.inf):
        raise ContractError(f"{name} is {number:g}; must be a finite number >= {least:g}")
    return number


def _row(values: FloatArray) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"
