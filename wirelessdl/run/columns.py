"""Columns of the tables, from the records of rounds: pure functions, one per table.

`trace.links = "auto"` traces every link while rounds times links stay within `trace.link_rows`. Beyond, links are
sampled at rate link_rows / (rounds * links), by a draw for each unordered pair of nodes: both directions are traced or
neither, and a link that is traced is traced in every round. Whatever is counted over rows estimates the whole when
divided by the rate. Nothing but the links table depends on it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wirelessdl import counter_rng
from wirelessdl.access.passes import noise_of_mean
from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.families import columns
from wirelessdl.gaussian import slot_epsilon
from wirelessdl.learning.runtime import fetch
from wirelessdl.links import Links
from wirelessdl.radio.energy import EnergyModel
from wirelessdl.radio.frame_channel import FrameChannel, root_mean_square, sinr_db
from wirelessdl.round.records import FrameDecision, RoundRecord
from wirelessdl.streams import Streams
from wirelessdl.trace.schema import TABLES
from wirelessdl.units import to_db, to_s

Columns = dict[str, Any]
_KINDS = {"float": np.float64, "int": np.int64, "bool": np.bool_}


class LinkSample:
    """A share of all pairs. rate: 1 traces every link."""

    def __init__(self, rate: float, streams: Streams):
        self.rate = rate
        self._word = counter_rng.key(streams.draws("trace.links"))
        self._last: tuple[Links, BoolArray] | None = None

    def mask(self, links: Links) -> BoolArray | slice:
        """Which links are traced, `[links]`; all of them as a slice."""
        if self.rate >= 1.0:
            return slice(None)
        if self._last is None or self._last[0] is not links:
            self._last = (links, np.asarray(counter_rng.uniform(self._word, links.pair)[0] < self.rate))
        return self._last[1]


def sampling_rate(kind: str, rows: int, rounds: int, links: int) -> float:
    """Share of links that are traced. rows: most of the table; links: that are heard in a frame."""
    return min(1.0, rows / max(1, rounds * links)) if kind == "auto" else 1.0


def node_columns(
    records: Sequence[RoundRecord], loss: FloatArray, energy: EnergyModel, self_interference: float
) -> Columns:
    """One row per round and node. loss: [rounds, K]; self_interference: share of its own emission that a node hears."""
    decisions = [record.decision for record in records]
    count = len(decisions[0].on_air)

    def flat(get: Callable[[FrameDecision], Any]) -> Any:
        return np.concatenate([get(decision) for decision in decisions])

    sent_power = fetch([record.result.sent_power for record in records]).ravel()
    alpha, budget_w, on_air = flat(lambda d: d.plan.alpha), flat(lambda d: d.budget_w), flat(lambda d: d.on_air)
    sigma = flat(lambda d: d.sigma)
    power_w = on_air * budget_w * (alpha * sent_power + (1.0 - alpha) * sigma**2)
    sent_square = [record.result.attack_square for record in records]
    if any(square is not None for square in sent_square):  # attackers send no model with noise
        nothing = np.full(count, np.nan)
        known = np.concatenate([nothing if square is None else fetch([square])[0] for square in sent_square])
        power_w = np.where(np.isnan(known), power_w, on_air * alpha * budget_w * known)
    if decisions[0].carried.coded:  # symbols of a code, whatever they stand for
        power_w = on_air * flat(lambda d: d.plan.power_w)
    power_w = np.concatenate(
        [_payload_power_w(record, power) for record, power in zip(records, power_w.reshape(len(records), -1))]
    )
    pass_power_w = np.concatenate([_pass_power_w(record) for record in records])
    spent = [
        energy.spent(
            decision.frame,
            # payload and passes take equally long
            power_w=(power + decision.frame.passes * again) / (1 + decision.frame.passes),
            **_use(decision),
        )
        for decision, power, again in zip(
            decisions, power_w.reshape(len(decisions), -1), pass_power_w.reshape(len(decisions), -1)
        )
    ]
    stepped = np.concatenate([record.stepped for record in records])
    attackers = flat(lambda d: d.attackers)
    return {
        "round": np.repeat([decision.round for decision in decisions], count),
        "node": np.tile(np.arange(count), len(decisions)),
        "time_s": np.repeat([to_s(record.time_ns) for record in records], count),
        "x_m": flat(lambda d: d.channel.links.geometry.position_m[:, 0]),
        "y_m": flat(lambda d: d.channel.links.geometry.position_m[:, 1]),
        "height_m": flat(lambda d: d.channel.links.geometry.position_m[:, 2]),
        "up": flat(lambda d: d.participation.up),
        "present": flat(lambda d: d.participation.ready),
        "transmitted": on_air,
        "report_lost": flat(lambda d: d.participation.missed),
        "z_lost": flat(lambda d: d.z_lost),
        "turn": np.ma.masked_array(flat(lambda d: d.turn), ~on_air),
        **{name: _nodes_of_access(decisions, name, kind) for name, kind, *_ in columns("nodes")},
        "attacks": attackers & on_air,
        "accuracy": np.ma.masked_where(attackers, _accuracy(records, count)),
        "loss": np.ma.masked_array(loss.ravel(), ~stepped),
        "grad_norm": np.ma.masked_array(fetch([record.result.grad_norm for record in records]).ravel(), ~stepped),
        "nonfinite_gradients": np.ma.masked_array(
            fetch([record.result.nonfinite_gradients for record in records]).ravel().astype(np.int64), ~stepped
        ),
        "excess_loss": _excess(records, count),
        "alpha": alpha,
        "beta": 1.0 - alpha,
        "own_share": flat(lambda d: _shares(d, d.plan.own_share)),
        "coalition_share": flat(lambda d: _shares(d, d.plan.coalition_share)),
        "power_w": power_w,
        "pass_power_w": np.ma.masked_array(pass_power_w, np.repeat([not d.frame.passes for d in decisions], count)),
        "backoff_db": flat(lambda d: d.plan.backoff_db),
        "self_interference_w": _self_interference_w(records, self_interference * (on_air * alpha * budget_w)),
        "multiplier": flat(lambda d: d.multiplier),
        "sent_multiplier": flat(lambda d: d.on_air * d.release.multiplier),
        "sent_learning_rate": flat(lambda d: d.on_air * d.release.gamma),
        "epsilon_own_bound": flat(lambda d: d.charged.own_total.bound),
        "epsilon_own_total": _known(flat(lambda d: d.charged.own_total.total)),
        "epsilon_promised_bound": flat(lambda d: d.charged.promised_total.bound),
        "epsilon_promised_total": _known(flat(lambda d: d.charged.promised_total.total)),
        "row_sum": flat(lambda d: d.weights.actual.row_sum),
        "energy_tx_j": np.concatenate([one.transmit_j for one in spent]),
        "energy_pilot_j": np.concatenate([one.pilot_j for one in spent]),
        "energy_rx_j": np.concatenate([one.receive_j for one in spent]),
        "energy_control_j": np.concatenate([one.control_j for one in spent]),
        "energy_compute_j": np.concatenate([one.compute_j for one in spent]),
        "energy_j": np.concatenate([one.total_j for one in spent]),
        "battery_j": np.ma.masked_invalid(flat(lambda d: d.participation.battery_j)),
    }


def _use(decision: FrameDecision) -> dict[str, Any]:
    """Who used a frame for how long, as the energy model asks for it."""
    return {
        "sends": decision.on_air,
        "hears": decision.participation.ready,
        "missed": decision.participation.missed,
        "compute_s": decision.computes * decision.participation.compute_s,
        "airtime": decision.carried.airtime,
    }


def link_columns(
    records: Sequence[RoundRecord],
    power_w: FloatArray,
    sinr_db: Sequence[FloatArray],
    thermal_w: float,
    sample: LinkSample,
) -> Columns:
    """One row per round and link that is heard and traced. power_w: [rounds, K] radiated; sinr_db: of all heard."""
    decisions = [record.decision for record in records]
    if not decisions:
        return {name: [] for name in TABLES["links"].names}

    traced = [sample.mask(decision.channel.heard) for decision in decisions]

    def flat(get: Callable[[FrameDecision], Any]) -> Any:
        return np.concatenate([get(decision)[keep] for decision, keep in zip(decisions, traced)])

    gain = flat(lambda d: root_mean_square([slot.gain for slot in d.channel.slots]))
    tx = [decision.channel.heard.tx[keep] for decision, keep in zip(decisions, traced)]
    radiated = np.concatenate([power[senders] for power, senders in zip(power_w, tx)])
    sinr = np.concatenate([heard[keep] for heard, keep in zip(sinr_db, traced)])
    return {
        "round": np.repeat([decision.round for decision in decisions], [len(senders) for senders in tx]),
        "tx": np.concatenate(tx),
        "rx": flat(lambda d: d.channel.heard.rx),
        "neighbour": flat(lambda d: d.channel.is_neighbour),
        "distance_m": flat(lambda d: d.channel.heard.distance_m),
        "gain": gain,
        "gain_est": flat(lambda d: root_mean_square([slot.gain_est for slot in d.channel.slots])),
        "phase_rad": np.ma.masked_invalid(flat(lambda d: _phase_rad(d.channel))),
        "weight": flat(lambda d: d.weights.actual.link),
        "snr_db": to_db(gain**2 * radiated / thermal_w) if thermal_w > 0 else _nulls(len(gain)),
        "sinr_db": np.ma.array(sinr, mask=np.isposinf(sinr)),
        "epsilon": _known(flat(lambda d: d.charged.link)),
        **{name: _links_of_access(decisions, traced, name, kind) for name, kind, *_ in columns("links")},
    }


def _nodes_of_access(decisions: Sequence[FrameDecision], name: str, kind: str) -> Any:
    """A column of nodes that an access adds; null under others."""
    blank = _blank(len(decisions[0].on_air), kind)
    return _joined([decision.carried.nodes.get(name, blank) for decision in decisions])


def _links_of_access(decisions: Sequence[FrameDecision], traced: Sequence[Any], name: str, kind: str) -> Any:
    """A column of links that an access adds; null on links of non-neighbours, and under other accesses."""
    found = []
    for decision, keep in zip(decisions, traced):
        neighbour = decision.channel.is_neighbour
        values = _blank(len(neighbour), kind)
        if name in decision.carried.links:
            values[neighbour] = decision.carried.links[name]
        found.append(values[keep])
    return _joined(found)


def _blank(count: int, kind: str) -> Any:
    """A column of nulls."""
    return np.ma.array(np.zeros(count, dtype=_KINDS[kind]), mask=True)


def _joined(parts: Sequence[Any]) -> Any:
    mask = np.concatenate([np.ma.getmaskarray(part) for part in parts])
    return np.ma.array(np.concatenate([np.ma.getdata(part) for part in parts]), mask=mask)


def block_columns(records: Sequence[RoundRecord], delta: float, sample: LinkSample) -> Columns:
    """One row per round, block of the payload and link that is heard and traced."""
    names = TABLES["blocks"].names
    parts: dict[str, list[Any]] = {name: [] for name in names}
    for decision in (record.decision for record in records):
        channel, mu = decision.channel, decision.release.block_mu
        keep = sample.mask(channel.heard)
        tx, rx = channel.heard.tx[keep], channel.heard.rx[keep]
        unknown = np.full(len(tx), np.nan)
        weights_of = decision.weights.slots
        for number, block in enumerate(channel.slots):
            weights = weights_of[number if len(weights_of) > 1 else 0]  # a message has the same in all slots
            slot, subband = divmod(number, channel.subbands)
            counted = mu is not None and decision.release.counts_links
            row = (
                *(np.full(len(tx), value) for value in (decision.round, slot, subband)),
                *(tx, rx, block.gain[keep], block.gain_est[keep]),
                unknown if block.phase_rad is None else block.phase_rad[keep],
                weights.actual.link[keep],
                slot_epsilon(mu[number][keep], delta) if counted and mu is not None else unknown,
            )
            for name, values in zip(names, row):
                parts[name].append(values)
    found: Columns = {name: np.concatenate(values) if values else [] for name, values in parts.items()}
    for name in ("phase_rad", "epsilon"):
        found[name] = _known(np.asarray(found[name], dtype=np.float64))
    return found


def _payload_power_w(record: RoundRecord, planned_w: FloatArray) -> FloatArray:
    """Mean power that each node radiated in its payloads, `[K]` W: as planned, or as it was scaled before each."""
    steps, radiated_w = record.decision.carried.announced, record.result.radiated_w
    if radiated_w is None:
        return planned_w
    payloads = np.bincount(np.concatenate([step.senders for step in steps]), minlength=len(planned_w))[: len(planned_w)]
    return np.asarray(fetch([radiated_w])[0] / np.maximum(payloads, 1))


def _pass_power_w(record: RoundRecord) -> FloatArray:
    """Mean power that each node radiated in the mixing passes of a frame, `[K]` W."""
    decision, sent, held = record.decision, record.result.held_power, record.decision.carried.steps[1:]
    if sent is None or not held:
        return np.zeros(len(decision.on_air))
    return np.asarray(decision.on_air * held[0].power_w * fetch([sent])[0] / len(held))


def _shares(decision: FrameDecision, share: FloatArray | None) -> FloatArray:
    return np.ones(len(decision.on_air)) if share is None else share


def sinr_of_rounds(records: Sequence[RoundRecord], nodes: Columns, thermal_w: float) -> list[FloatArray]:
    """SINR of all that is heard in each round, `[heard]` dB. nodes: the columns of the nodes table."""
    power_w, residual_w = (
        np.ma.filled(nodes[name], 0.0).reshape(len(records), -1) for name in ("power_w", "self_interference_w")
    )
    every = zip(records, power_w, residual_w)
    return [_sinr_db(record.decision, power, residual, thermal_w) for record, power, residual in every]


def _median_sinr_db(decisions: Sequence[FrameDecision], sinr_db: Sequence[FloatArray]) -> Any:
    """Of the graph's links in each round; masked where there are none, or nothing disturbs them."""
    found = np.full(len(decisions), np.nan)
    for row, (decision, heard) in enumerate(zip(decisions, sinr_db)):
        of_links = heard[decision.channel.is_neighbour]
        if len(of_links) and not np.isposinf(of_links).any():
            found[row] = _median(of_links)
    return np.ma.masked_invalid(found)


def _median(values: FloatArray) -> float:
    """What np.median gives, in a tenth of the time for as few values as a round has links."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2.0)


def _sinr_db(decision: FrameDecision, power_w: FloatArray, residual_w: FloatArray, thermal_w: float) -> FloatArray:
    channel = decision.channel
    jammer_w = 0.0 if channel.jammer_w is None else channel.jammer_w
    return sinr_db(
        channel.heard,
        channel.is_neighbour,
        root_mean_square([slot.gain for slot in channel.slots]),
        power_w=power_w,
        noise_w=thermal_w + jammer_w + residual_w,
        turn=decision.turn,
    )


def round_columns(
    records: Sequence[RoundRecord],
    nodes: Columns,
    sinr_db: Sequence[FloatArray],
    energy: EnergyModel,
    thermal_w: float,
) -> Columns:
    """One row per round. nodes: the columns of the nodes table; sinr_db: of all heard in each round."""
    decisions, count = [record.decision for record in records], len(records)
    noise = np.sqrt([_noise_of_mean(record, thermal_w) for record in records])

    def each(get: Callable[[FrameDecision], Any]) -> Any:
        return np.array([get(decision) for decision in decisions])

    accuracy = nodes["accuracy"].reshape(count, -1)
    return {
        "round": each(lambda d: d.round),
        "time_s": np.array([to_s(record.time_ns) for record in records]),
        "accuracy_mean": accuracy.mean(axis=1),
        "accuracy_min": accuracy.min(axis=1),
        "accuracy_max": accuracy.max(axis=1),
        "loss_mean": nodes["loss"].reshape(count, -1).mean(axis=1),
        "consensus_distance": fetch([record.result.consensus_distance for record in records]),
        "stage": each(lambda d: "gram" if d.release.stage else "train"),
        "learning_rate": each(lambda d: d.learning_rate),
        "noise_std": each(lambda d: d.sigma.max()),
        "privacy_noise_std": noise[:, 0],
        "receiver_noise_std": noise[:, 1],
        "epsilon_link_max": _known(
            each(lambda d: d.charged.link.max(initial=0.0) if d.release.counts_links else np.nan)
        ),
        "epsilon_own_max": each(lambda d: d.charged.own.max()),
        "epsilon_own_bound": each(lambda d: d.charged.own_total.bound.max()),
        "epsilon_own_total": _known(each(lambda d: d.charged.own_total.worst)),
        "epsilon_promised_max": each(lambda d: d.charged.promised.max()),
        "epsilon_promised_bound": each(lambda d: d.charged.promised_total.bound.max()),
        "epsilon_promised_total": _known(each(lambda d: d.charged.promised_total.worst)),
        "violations": each(lambda d: d.charged.violations),
        "active_nodes": each(lambda d: int(d.on_air.sum())),
        "up_nodes": each(lambda d: int(d.participation.up.sum())),
        "spectral_gap": np.ma.masked_invalid(each(lambda d: d.spectral_gap)),
        "sinr_db": _median_sinr_db(decisions, sinr_db),
        "slots": each(lambda d: len(d.frame.payloads_ns)),
        "passes": each(lambda d: d.frame.passes),
        "opened_s": each(lambda d: to_s(d.opened_ns)),
        "payload_slots": each(lambda d: d.frame.slots),
        "turns": each(lambda d: d.frame.turns),
        "pilot_s": each(lambda d: to_s(d.frame.pilot_ns)),
        "node_pilot_s": each(lambda d: to_s(d.frame.own_pilot_ns)),
        "payload_s": each(lambda d: to_s(max(d.frame.payloads_ns, default=0))),
        "guard_s": each(lambda d: to_s(d.frame.guard_ns)),
        "feedback_s": each(lambda d: to_s(d.frame.feedback_ns)),
        "exchange_s": each(lambda d: to_s(d.frame.exchange_ns)),
        "airtime_s": each(lambda d: to_s(d.frame.airtime_ns)),
        "energy_j": nodes["energy_j"].reshape(count, -1).sum(axis=1),
        "energy_nominal_j": each(lambda d: energy.nominal_j(d.frame, **_use(d)).sum()),
        **{
            name: np.ma.masked_invalid([decision.carried.rounds.get(name, np.nan) for decision in decisions])
            for name, *_ in columns("rounds")
        },
    }


def _noise_of_mean(record: RoundRecord, thermal_w: float) -> tuple[float, float]:
    """Variance that senders and receivers add to the mean model of a frame; a decoded message has no receiver noise."""
    decision = record.decision
    sent = np.asarray(decision.plan.beta / decision.plan.alpha * decision.sigma**2)
    sent = sent if decision.plan.own_share is None else sent * decision.plan.own_share
    jammer_w = 0.0 if decision.channel.jammer_w is None else decision.channel.jammer_w
    receiver_w = np.broadcast_to(0.0 if decision.carried.coded else thermal_w + jammer_w, sent.shape)
    privacy, received = noise_of_mean(decision.carried.steps, decision.on_air, sent, receiver_w)
    plan, on_air, missed = decision.plan, decision.on_air, decision.carried.rounds.get("column_error")
    if missed is not None and on_air.any():  # pairs do not cancel by as much
        shared = np.where(on_air, plan.beta / plan.alpha * decision.sigma**2 - sent, 0.0).sum()
        privacy += missed**2 * shared / max(int(on_air.sum()), 1) ** 2
    if record.result.receiver_noise is not None:
        received = float(fetch([record.result.receiver_noise])[0]) / max(int(decision.on_air.sum()), 1) ** 2
    return privacy, received


def _known(values: FloatArray) -> Any:
    """Masked where not a number; infinities stay."""
    return np.ma.array(values, mask=np.isnan(values))


def _accuracy(records: Sequence[RoundRecord], count: int) -> Any:
    """Accuracy per node and round, masked where no evaluation took place."""
    values = np.ma.masked_invalid(np.full((len(records), count), np.nan))
    evaluated = [n for n, record in enumerate(records) if record.result.evaluated]
    if evaluated:
        values[evaluated] = fetch([a for n in evaluated if (a := records[n].result.accuracy) is not None])
    return values.ravel()


def _excess(records: Sequence[RoundRecord], count: int) -> Any:
    found = [excess for record in records if (excess := record.result.excess) is not None]
    return fetch(found).ravel() if found else _nulls(count * len(records))


def _self_interference_w(records: Sequence[RoundRecord], scale_w: FloatArray) -> Any:
    """What each node heard of its own emission, as far as models and noise were really sent; null where nobody sent."""
    values = _nulls(len(scale_w)).reshape(len(records), -1)
    heard = [n for n, record in enumerate(records) if record.result.self_interference_power is not None]
    if heard:
        powers = [power for n in heard if (power := records[n].result.self_interference_power) is not None]
        values[heard] = scale_w.reshape(len(records), -1)[heard] * fetch(powers)
    return values.ravel()


def _phase_rad(channel: FrameChannel) -> FloatArray:
    """Of the first block; NaN without phase errors."""
    phase = channel.slots[0].phase_rad
    return np.full(len(channel.heard), np.nan) if phase is None else phase


def _nulls(count: int) -> Any:
    return np.ma.masked_invalid(np.full(count, np.nan))
