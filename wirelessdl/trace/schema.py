"""The tables of a run. Arrow field metadata carries unit and meaning; the version is in every file."""

from collections.abc import Iterable

import pyarrow as pa

VERSION = 2

_I, _F, _B = pa.int32(), pa.float64(), pa.bool_()
_TEXT = pa.dictionary(pa.int32(), pa.string())
_ROUNDS = b"wirelessdl_rounds"
_Column = tuple[str, pa.DataType, str, str]


def _schema(columns: Iterable[_Column]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"unit": unit, "meaning": text}) for name, kind, unit, text in columns]
    return pa.schema(fields, metadata={"wirelessdl_schema": str(VERSION)})


def part_schema(name: str, first_round: int, last_round: int) -> pa.Schema:
    """Schema of one part, which says what rounds it covers, rows or not."""
    schema = TABLES[name]
    return schema.with_metadata({**schema.metadata, _ROUNDS: f"{first_round}-{last_round}"})


def covered_rounds(schema: pa.Schema) -> tuple[int, int]:
    """First and last round that a part covers."""
    first, _, last = schema.metadata[_ROUNDS].decode().partition("-")
    return int(first), int(last)


TABLES: dict[str, pa.Schema] = {
    "rounds": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("time_s", _F, "s", "simulated time at the end of the payload slot"),
            (
                "accuracy_mean",
                _F,
                "",
                "test accuracy, mean over nodes, of s (hardened) or the updated x (paper); of a regression the share "
                "of variance explained; null without evaluation",
            ),
            ("accuracy_min", _F, "", "test accuracy of the worst node"),
            ("accuracy_max", _F, "", "test accuracy of the best node"),
            ("loss_mean", _F, "nat", "mini-batch loss where the gradient was taken, mean over nodes"),
            (
                "consensus_distance",
                _F,
                "",
                "root mean square distance from their mean of the models evaluated",
            ),
            ("learning_rate", _F, "", "gamma_t"),
            ("noise_std", _F, "", "sigma, deviation of eta in this slot's transmissions (largest node)"),
            ("epsilon_link_max", _F, "", "largest one-slot epsilon of a link (Theorem 1)"),
            ("epsilon_own_max", _F, "", "largest one-slot epsilon of a sender behind its own noise alone"),
            (
                "epsilon_total_max",
                _F,
                "",
                "largest proven own-noise total so far, by a cheap bound (see privacy)",
            ),
            ("violations", _I, "", "links whose one-slot epsilon exceeds epsilon_max"),
            ("active_nodes", _I, "", "nodes on air"),
            ("up_nodes", _I, "", "nodes that run"),
            ("spectral_gap", _F, "", "1 - |second eigenvalue| of the mixing; null where not computed"),
            (
                "slots",
                _I,
                "",
                "payload transmissions, one after the other, of this round: payload_slots * turns",
            ),
            ("opened_s", _F, "s", "simulated time at which the frame opened"),
            ("payload_slots", _I, "", "slots that the payload is cut into, each with pilots and gains of its own"),
            ("turns", _I, "", "turns of a slot: 1 full duplex, 2 half duplex, one per color under tdma"),
            ("pilot_s", _F, "s", "pilots of one turn, all senders one after another"),
            ("node_pilot_s", _F, "s", "of it, each sender's own"),
            ("payload_s", _F, "s", "payload of one turn"),
            ("guard_s", _F, "s", "guard after the pilots of a turn, and after its payload"),
            ("feedback_s", _F, "s", "feedback of gains and plan, once a frame, before the first payload"),
            ("exchange_s", _F, "s", "exchange of z, once a frame, after the last guard"),
            ("airtime_s", _F, "s", "time on air in this round: pilot, payload, guards, feedback and z"),
            ("energy_j", _F, "J", "energy that all nodes used in this round"),
        ]
    ),
    "nodes": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("node", _I, "", "node number, from 0"),
            ("time_s", _F, "s", "simulated time at the end of the payload slot"),
            ("x_m", _F, "m", "position"),
            ("y_m", _F, "m", "position"),
            ("height_m", _F, "m", "height of the antenna"),
            ("up", _B, "", "whether the node runs"),
            ("present", _B, "", "whether it took part: a node that is down or late neither sends nor mixes"),
            ("transmitted", _B, "", "whether it was on air"),
            ("turn", _I, "", "turn of every slot in which it sent, from 0; null where it did not"),
            ("accuracy", _F, "", "test accuracy; null without evaluation"),
            ("loss", _F, "nat", "mini-batch loss where the gradient was taken; null where none was"),
            ("grad_norm", _F, "", "norm of the clipped gradient; null where there is none"),
            (
                "excess_loss",
                _F,
                "nat",
                "F(x) - F(x*), all nodes' losses together at this node's model; its running sum is the regret; null "
                "where not asked for",
            ),
            ("alpha", _F, "", "share of power for the model"),
            ("beta", _F, "", "share of power for DP noise"),
            ("power_w", _F, "W", "power actually radiated in the payload slot"),
            ("backoff_db", _F, "dB", "how far the node stays below its power budget, for balance"),
            ("self_interference_w", _F, "W", "what remained of its own emission at its receiver; null without any"),
            ("multiplier", _F, "", "factor of the gradient, K or 1/z_ii"),
            ("sent_multiplier", _F, "", "multiplier of the gradient its transmission carried; 0 for none"),
            ("row_sum", _F, "", "sum of the node's mixing weights; 1 under perfect CSI"),
            ("energy_tx_j", _F, "J", "energy for the payload as it was radiated, over the amplifier's efficiency"),
            ("energy_pilot_j", _F, "J", "energy for its pilots"),
            ("energy_rx_j", _F, "J", "energy for listening"),
            ("energy_compute_j", _F, "J", "energy for the gradient that this round starts"),
            ("energy_j", _F, "J", "energy used in this round: the sum of these four"),
            ("battery_j", _F, "J", "what the battery held when the frame opened, by nominal use; null without one"),
        ]
    ),
    "links": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("tx", _I, "", "sender"),
            ("rx", _I, "", "receiver"),
            ("neighbour", _B, "", "whether it is a link of the graph; else heard as interference"),
            ("distance_m", _F, "m", "length of the link"),
            ("gain", _F, "", "|h|, amplitude; root mean square where a frame has several slots"),
            ("gain_est", _F, "", "|h| as the receiver estimated it"),
            ("phase_rad", _F, "rad", "phase error, of the first slot; null without any"),
            ("weight", _F, "", "mixing weight A[rx, tx]; mean over slots"),
            ("snr_db", _F, "dB", "received power of this sender over thermal noise; null without noise"),
            ("epsilon", _F, "", "what tx leaks to rx in this one slot (Theorem 1)"),
        ]
    ),
    "clients": _schema(
        [
            ("node", _I, "", "node number, from 0"),
            ("samples", _I, "", "training samples that the node holds"),
            ("sampling_rate", _F, "", "q, the sampling rate that amplification may count on"),
            ("sensitivity", _F, "", "how far one replaced sample moves the node's gradient, at most"),
            ("epoch_rounds", _I, "", "rounds of an epoch where batches are shuffled; 1 otherwise"),
            ("class_counts", pa.list_(pa.int64()), "", "samples of each class; of a regression, all samples"),
        ]
    ),
    "events": _schema(
        [
            ("time_s", _F, "s", "simulated time"),
            ("node", _I, "", "node; null for the network"),
            ("kind", _TEXT, "", "what happened"),
            ("detail", pa.string(), "", "more about it"),
        ]
    ),
    "privacy": _schema(
        [
            ("tx", _I, "", "sender who is protected"),
            ("rx", _I, "", "receiver it is protected from; null: everyone together"),
            ("view", _TEXT, "", "own: behind the sender's own noise; link: behind all the receiver hears"),
            ("status", _TEXT, "", "proven, or unproven: the paper's sum over slots"),
            ("accountant", _TEXT, "", "how slots were added up"),
            ("adjacency", _TEXT, "", "which data sets are neighbours"),
            ("sampler", _TEXT, "", "how batches were drawn"),
            ("clipping", _TEXT, "", "what was clipped"),
            ("delta", _F, "", "delta of the total"),
            ("rounds", _I, "", "charged releases"),
            ("epsilon_total", _F, "", "epsilon over the whole run"),
        ]
    ),
}

SNAPSHOTS = ("clients", "privacy")  # tables that are written whole, not by rounds
