"""The tables of a run. Arrow field metadata carries unit and meaning; the version is in every file."""

from collections.abc import Iterable

import pyarrow as pa

from wirelessdl.families import columns

VERSION = 6

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


def _of_access(table: str) -> list[_Column]:
    """Columns that members of access add: null under the others."""
    kinds = {"float": _F, "int": _I, "bool": _B}
    return [(name, kinds[kind], unit, text) for name, kind, unit, text in columns(table)]


TABLES: dict[str, pa.Schema] = {
    "rounds": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("time_s", _F, "s", "simulated time at the end of the frame's last payload"),
            (
                "accuracy_mean",
                _F,
                "",
                "test accuracy, mean over nodes, of s (hardened) or of the updated x (paper); for a regression, the "
                "share of variance explained; null without evaluation",
            ),
            ("accuracy_min", _F, "", "test accuracy of the worst node"),
            ("accuracy_max", _F, "", "test accuracy of the best node"),
            ("loss_mean", _F, "nat", "mini-batch loss at the point of the gradient, mean over nodes"),
            (
                "consensus_distance",
                _F,
                "",
                "root mean square distance of the evaluated models from their mean",
            ),
            ("learning_rate", _F, "", "gamma_t"),
            (
                "noise_std",
                _F,
                "",
                "sigma, standard deviation of the noise eta before the power split; largest of all nodes",
            ),
            (
                "privacy_noise_std",
                _F,
                "",
                "deviation per coordinate that privacy noise adds to the mean model of those that sent; what pairs "
                "share cancels there",
            ),
            (
                "receiver_noise_std",
                _F,
                "",
                "the same of receiver noise, thermal and jammers', in payload and passes; 0 where messages are decoded",
            ),
            (
                "epsilon_link_max",
                _F,
                "",
                "largest one-slot epsilon of a link (Theorem 1), over links and blocks of the payload; null where "
                "pairs share noise or passes send on what was received",
            ),
            (
                "epsilon_own_max",
                _F,
                "",
                "largest epsilon of one transmission with the sender's own noise alone, over senders",
            ),
            (
                "epsilon_own_bound",
                _F,
                "",
                "upper bound of epsilon_own_total that is quick to compute, in every round",
            ),
            (
                "epsilon_own_total",
                _F,
                "",
                "largest proven own total so far, over senders (see privacy); null between evaluations, and where "
                "releases differ so much that composing them takes long",
            ),
            (
                "epsilon_promised_max",
                _F,
                "",
                "largest epsilon of one transmission in the promised view (own, or coalition), over senders",
            ),
            (
                "epsilon_promised_bound",
                _F,
                "",
                "upper bound of epsilon_promised_total that is quick to compute, in every round",
            ),
            (
                "epsilon_promised_total",
                _F,
                "",
                "largest proven total so far in the promised view, over senders; null where epsilon_own_total may be",
            ),
            (
                "violations",
                _I,
                "",
                "links whose one-slot epsilon exceeds epsilon_max in this round; senders in the promised view where "
                "links are not accounted for",
            ),
            ("active_nodes", _I, "", "nodes that transmitted"),
            ("up_nodes", _I, "", "nodes that are not down"),
            ("spectral_gap", _F, "", "1 - |second largest eigenvalue| of the mixing matrix; null if not computed"),
            ("sinr_db", _F, "dB", "median over the graph's links of links.sinr_db; null if nothing disturbs a link"),
            (
                "slots",
                _I,
                "",
                "transmissions in sequence in this frame: payload_slots * (1 + passes) * turns; of messages: turns "
                "without a sender are skipped, and repetitions take turns of their own",
            ),
            ("passes", _I, "", "mixing passes after the payload, in the last round with the closing ones"),
            ("opened_s", _F, "s", "simulated time at which the frame opened"),
            ("payload_slots", _I, "", "slots into which the payload is divided, each with its own pilots and gains"),
            (
                "turns",
                _I,
                "",
                "turns of each slot: 1 (full duplex), 2 (half duplex), or one per color (tdma)",
            ),
            ("pilot_s", _F, "s", "duration of the pilots of one turn, all senders in sequence"),
            ("node_pilot_s", _F, "s", "duration of one sender's pilots, part of pilot_s"),
            ("payload_s", _F, "s", "duration of the payload of one turn; of messages: of the longest"),
            ("guard_s", _F, "s", "guard interval after the pilots of a turn, and again after its payload"),
            (
                "feedback_s",
                _F,
                "s",
                "duration of the feedback of gains and plan, once per frame, before the first payload",
            ),
            ("exchange_s", _F, "s", "duration of the exchange of z, once per frame, after the last guard interval"),
            ("airtime_s", _F, "s", "duration of the frame: pilots, payloads, guard intervals, feedback and exchange"),
            ("energy_j", _F, "J", "energy that all nodes used in this round"),
            (
                "energy_nominal_j",
                _F,
                "J",
                "the same with payload and passes at the power budget instead of what was radiated",
            ),
            *_of_access("rounds"),
        ]
    ),
    "nodes": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("node", _I, "", "node number, from 0"),
            ("time_s", _F, "s", "simulated time at the end of the frame's last payload"),
            ("x_m", _F, "m", "position"),
            ("y_m", _F, "m", "position"),
            ("height_m", _F, "m", "height of the antenna"),
            ("up", _B, "", "whether the node is not down"),
            (
                "present",
                _B,
                "",
                "whether it took part in the frame; one that is down, late or without a plan neither sends nor mixes",
            ),
            ("transmitted", _B, "", "whether it transmitted"),
            ("report_lost", _B, "", "whether its report of gains was lost, so that it got no plan and took no part"),
            ("z_lost", _B, "", "whether its broadcast of z was lost"),
            ("turn", _I, "", "turn in which it transmitted, the same in every slot, from 0; null if it did not"),
            *_of_access("nodes"),
            ("accuracy", _F, "", "test accuracy; null without evaluation"),
            ("loss", _F, "nat", "mini-batch loss at the point of the gradient; null without a gradient"),
            ("grad_norm", _F, "", "norm of the clipped gradient; null without a gradient"),
            (
                "nonfinite_gradients",
                _I,
                "",
                "gradients that were not finite and counted as zero: samples of the batch (per-sample clipping), or "
                "the whole gradient (batch clipping); null without a gradient",
            ),
            (
                "excess_loss",
                _F,
                "nat",
                "F(x) - F(x*), with F the sum of all nodes' losses, at this node's model; its running sum is the "
                "regret; null without learning.regret",
            ),
            ("alpha", _F, "", "share of power for the model"),
            ("beta", _F, "", "share of power for privacy noise"),
            (
                "own_share",
                _F,
                "",
                "share of its noise variance that nobody else knows; 1 where noise is independent",
            ),
            (
                "coalition_share",
                _F,
                "",
                "share of its noise variance that hides it from the coalition; 1 where noise is independent",
            ),
            ("power_w", _F, "W", "power radiated during the payload"),
            (
                "pass_power_w",
                _F,
                "W",
                "mean power radiated during mixing passes; null without any",
            ),
            ("backoff_db", _F, "dB", "reduction below the power budget, from power balancing"),
            (
                "self_interference_w",
                _F,
                "W",
                "self-interference power at its receiver after cancellation; null without any",
            ),
            ("multiplier", _F, "", "multiplier of the gradient computed in this round: K or 1/z_ii"),
            ("sent_multiplier", _F, "", "multiplier of the gradient that its transmission contained; 0 for none"),
            ("sent_learning_rate", _F, "", "learning rate of that gradient; 0 for none"),
            (
                "row_sum",
                _F,
                "",
                "sum of the node's row of the mixing matrix; 1 if CSI is perfect and nothing interferes",
            ),
            (
                "energy_tx_j",
                _F,
                "J",
                "energy for payload and mixing passes: radiated energy over the amplifier's efficiency",
            ),
            ("energy_pilot_j", _F, "J", "energy for its pilots"),
            ("energy_rx_j", _F, "J", "energy for reception"),
            ("energy_control_j", _F, "J", "energy for sending and receiving on the control channel"),
            ("energy_compute_j", _F, "J", "energy for the gradient computed in this round"),
            ("energy_j", _F, "J", "energy used in this round: the sum of the five above"),
            ("battery_j", _F, "J", "charge left when the frame opened, by nominal use; null without a battery"),
        ]
    ),
    "links": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("tx", _I, "", "sender"),
            ("rx", _I, "", "receiver"),
            ("neighbour", _B, "", "true: a link of the graph; false: received as interference"),
            ("distance_m", _F, "m", "length of the link"),
            ("gain", _F, "", "|h|, amplitude; root mean square over the blocks of the payload"),
            ("gain_est", _F, "", "the receiver's estimate of |h|; root mean square over blocks"),
            ("phase_rad", _F, "rad", "phase in the middle of the first block; null where all are aligned"),
            ("weight", _F, "", "entry A[rx, tx] of the mixing matrix; mean over blocks and symbols; 0 if left out"),
            ("snr_db", _F, "dB", "power received from this sender over thermal noise; null without thermal noise"),
            (
                "sinr_db",
                _F,
                "dB",
                "the same over thermal noise, jammers, strangers and residual self-interference; null without any",
            ),
            (
                "epsilon",
                _F,
                "",
                "one-slot epsilon of tx towards rx (Theorem 1); largest over the blocks of the payload; null where "
                "pairs share noise or passes send on what was received",
            ),
            *_of_access("links"),
        ]
    ),
    "blocks": _schema(
        [
            ("round", _I, "", "round t, from 1"),
            ("slot", _I, "", "slot of the payload, from 0"),
            ("subband", _I, "", "subband, from 0, the lowest frequency first"),
            ("tx", _I, "", "sender"),
            ("rx", _I, "", "receiver"),
            ("gain", _F, "", "|h|, amplitude, in this block"),
            ("gain_est", _F, "", "the receiver's estimate of |h|"),
            ("phase_rad", _F, "rad", "phase in the middle of the block; null where all are aligned"),
            ("weight", _F, "", "entry A[rx, tx] of the block's mixing matrix; mean over symbols"),
            (
                "epsilon",
                _F,
                "",
                "one-slot epsilon of tx towards rx if all of a sample's change fell into this block; null where "
                "links.epsilon is",
            ),
        ]
    ),
    "clients": _schema(
        [
            ("node", _I, "", "node number, from 0"),
            ("samples", _I, "", "training samples that the node holds"),
            (
                "sampling_rate",
                _F,
                "",
                "q, sampling rate for amplification: batch size over samples; 1 if sampling gives none",
            ),
            ("sensitivity", _F, "", "largest change of the clipped gradient when one unit (privacy.unit) is replaced"),
            ("epoch_rounds", _I, "", "rounds per epoch under shuffled sampling; 1 otherwise"),
            (
                "class_counts",
                pa.list_(pa.int64()),
                "",
                "number of samples of each class; for a regression, one entry with all samples",
            ),
            ("budget_w", _F, "W", "most power that the node may radiate"),
        ]
    ),
    "events": _schema(
        [
            ("time_s", _F, "s", "simulated time"),
            ("node", _I, "", "node; null for an event of the whole network"),
            ("kind", _TEXT, "", "kind of event, see above"),
            ("detail", pa.string(), "", "details, text"),
        ]
    ),
    "privacy": _schema(
        [
            ("tx", _I, "", "sender whose data is protected"),
            ("rx", _I, "", "receiver that observes; null: no single receiver, see view"),
            (
                "view",
                _TEXT,
                "",
                "own: only the sender's own noise counts, against everyone else; coalition: also what honest partners "
                "hide, against any c nodes; link: all noise that the receiver hears counts",
            ),
            ("status", _TEXT, "", "proven; or unproven: the paper's sum over rounds"),
            ("accountant", _TEXT, "", "method that composed the releases"),
            ("unit", _TEXT, "", "what is protected: one sample, or all data of one node"),
            ("adjacency", _TEXT, "", "neighbouring relation of data sets"),
            ("sampler", _TEXT, "", "sampling method of batches"),
            ("clipping", _TEXT, "", "clipping method"),
            ("delta", _F, "", "delta of the total"),
            ("rounds", _I, "", "number of charged releases"),
            ("epsilon_total", _F, "", "epsilon of all releases so far"),
        ]
    ),
}

SNAPSHOTS = ("clients", "privacy")  # tables that are written whole, not by rounds
