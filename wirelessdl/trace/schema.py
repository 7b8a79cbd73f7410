"""The tables of a run. Arrow field metadata carries unit and meaning; the version is in every file."""

from collections.abc import Iterator

import pyarrow as pa

from wirelessdl.families import columns

VERSION = 8
SNAPSHOTS = ("clients", "privacy")  # tables that are written whole, not by rounds

_ROUNDS = b"wirelessdl_rounds"
_KINDS = {
    "int": pa.int32(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "label": pa.dictionary(pa.int32(), pa.string()),
    "counts": pa.list_(pa.int64()),
}
# name, kind, unit (-: none), meaning, which further lines go on with; + access: columns that members of access add,
# null under the others
_COLUMNS = {
    "rounds": """
        round                   int    -    round t, from 1
        time_s                  float  s    simulated time at the end of the frame's last payload
        accuracy_mean           float  -    test accuracy, mean over honest nodes, of s (hardened) or of the updated x
                                            (paper); for a regression, the share of variance explained; null without
                                            evaluation
        accuracy_min            float  -    test accuracy of the worst node
        accuracy_max            float  -    test accuracy of the best node
        loss_mean               float  nat  mini-batch loss at the point of the gradient, mean over nodes
        consensus_distance      float  -    root mean square distance of the evaluated models from their mean
        stage                   label  -    what is sent: models (train), or second moments before training (gram)
        learning_rate           float  -    gamma_t
        noise_std               float  -    sigma, standard deviation of the noise eta before the power split; largest
                                            of all nodes
        privacy_noise_std       float  -    deviation per coordinate that privacy noise adds to the mean model of those
                                            that sent; what pairs share cancels there
        receiver_noise_std      float  -    the same of receiver noise, thermal and jammers', in payload and passes; 0
                                            where messages are decoded
        epsilon_link_max        float  -    largest one-slot epsilon of a link (Theorem 1), over links and blocks of
                                            the payload; null where pairs share noise or nodes send on what they
                                            received (passes, hubs)
        epsilon_own_max         float  -    largest epsilon of one transmission with the sender's own noise alone, over
                                            senders
        epsilon_own_bound       float  -    upper bound of epsilon_own_total that is quick to compute, in every round
        epsilon_own_total       float  -    largest proven own total so far, over senders (see privacy); null between
                                            evaluations, and where releases differ so much that composing them takes
                                            long
        epsilon_promised_max    float  -    largest epsilon of one transmission in the promised view (own, or
                                            coalition), over senders
        epsilon_promised_bound  float  -    upper bound of epsilon_promised_total that is quick to compute, in every
                                            round
        epsilon_promised_total  float  -    largest proven total so far in the promised view, over senders; null where
                                            epsilon_own_total may be
        violations              int    -    links whose one-slot epsilon exceeds epsilon_max in this round; senders in
                                            the promised view where links are not accounted for
        active_nodes            int    -    nodes that transmitted
        up_nodes                int    -    nodes that are not down
        spectral_gap            float  -    1 - |second largest eigenvalue| of the mixing matrix; null if not computed
        sinr_db                 float  dB   median over the graph's links of links.sinr_db; null if nothing disturbs a
                                            link
        slots                   int    -    transmissions in sequence in this frame: payload_slots * (1 + passes) *
                                            turns; of messages: turns without a sender are skipped, and repetitions
                                            take turns of their own
        passes                  int    -    mixing passes after the payload, in the last round with the closing ones
        opened_s                float  s    simulated time at which the frame opened
        payload_slots           int    -    slots into which the payload is divided, each with its own pilots and gains
        turns                   int    -    turns of each slot: 1 (full duplex), 2 (half duplex), or one per color
                                            (tdma)
        pilot_s                 float  s    duration of the pilots of one turn, all senders in sequence
        node_pilot_s            float  s    duration of one sender's pilots, part of pilot_s
        payload_s               float  s    duration of the payload of one turn; of messages: of the longest
        guard_s                 float  s    guard interval after the pilots of a turn, and again after its payload
        feedback_s              float  s    duration of the feedback of gains and plan, once per frame, before the
                                            first payload
        exchange_s              float  s    duration of the exchange of z, once per frame, after the last guard
                                            interval
        airtime_s               float  s    duration of the frame: pilots, payloads, guard intervals, feedback and
                                            exchange
        energy_j                float  J    energy that all nodes used in this round
        energy_nominal_j        float  J    the same with payload and passes at the power budget instead of what was
                                            radiated
        + access
    """,
    "nodes": """
        round                int    -    round t, from 1
        node                 int    -    node number, from 0
        time_s               float  s    simulated time at the end of the frame's last payload
        x_m                  float  m    position
        y_m                  float  m    position
        height_m             float  m    height of the antenna
        up                   bool   -    whether the node is not down
        present              bool   -    whether it took part in the frame; one that is down, late or without a plan
                                         neither sends nor mixes
        transmitted          bool   -    whether it transmitted
        report_lost          bool   -    whether its report of gains was lost, so that it got no plan and took no part
        z_lost               bool   -    whether its broadcast of z was lost
        turn                 int    -    turn in which it transmitted, the same in every slot, from 0; null if it did
                                         not
        + access
        attacks              bool   -    whether it sent something else than its model (faults.byzantine)
        accuracy             float  -    test accuracy; null without evaluation, and of attackers
        loss                 float  nat  mini-batch loss at the point of the gradient; null without a gradient
        grad_norm            float  -    norm of the clipped gradient, or of the step over its size where the update
                                         makes it (kind step); null without a gradient
        nonfinite_gradients  int    -    gradients that were not finite and counted as zero: samples of the batch
                                         (per-sample clipping), or the whole gradient (batch clipping); null without a
                                         gradient
        excess_loss          float  nat  F(x) - F(x*), with F the sum of all nodes' losses, at this node's model; its
                                         running sum is the regret; null without learning.regret
        alpha                float  -    share of power for the model
        beta                 float  -    share of power for privacy noise
        own_share            float  -    share of its noise variance that nobody else knows; 1 where noise is
                                         independent
        coalition_share      float  -    share of its noise variance that hides it from the coalition; 1 where noise is
                                         independent
        power_w              float  W    power radiated during the payload
        pass_power_w         float  W    mean power radiated during mixing passes; null without any
        backoff_db           float  dB   reduction below the power budget, from power balancing
        self_interference_w  float  W    self-interference power at its receiver after cancellation; null without any
        multiplier           float  -    multiplier of the gradient computed in this round: K or 1/z_ii
        sent_multiplier      float  -    multiplier of the gradient that its transmission contained; 0 for none
        sent_learning_rate   float  -    learning rate of that gradient; 0 for none
        epsilon_own_bound    float  -    upper bound of epsilon_own_total that is quick to compute, in every round
        epsilon_own_total    float  -    proven own total of this sender so far; null between evaluations, and where it
                                         would take long, as run.leakage(node) then does
        epsilon_promised_bound  float  -  upper bound of epsilon_promised_total that is quick to compute, in every round
        epsilon_promised_total  float  -  proven total of this sender so far in the promised view; null where
                                         epsilon_own_total may be
        row_sum              float  -    sum of the node's row of the mixing matrix; 1 if CSI is perfect and nothing
                                         interferes
        energy_tx_j          float  J    energy for payload and mixing passes: radiated energy over the amplifier's
                                         efficiency
        energy_pilot_j       float  J    energy for its pilots
        energy_rx_j          float  J    energy for reception
        energy_control_j     float  J    energy for sending and receiving on the control channel
        energy_compute_j     float  J    energy for the gradient computed in this round
        energy_j             float  J    energy used in this round: the sum of the five above
        battery_j            float  J    charge left when the frame opened, by nominal use; null without a battery
    """,
    "links": """
        round       int    -    round t, from 1
        tx          int    -    sender
        rx          int    -    receiver
        neighbour   bool   -    true: a link of the graph; false: received as interference
        distance_m  float  m    length of the link
        gain        float  -    |h|, amplitude; root mean square over the blocks of the payload
        gain_est    float  -    the receiver's estimate of |h|; root mean square over blocks
        phase_rad   float  rad  phase in the middle of the first block; null where all are aligned
        weight      float  -    entry A[rx, tx] of the mixing matrix; mean over blocks and symbols; 0 if left out
        snr_db      float  dB   power received from this sender over thermal noise; null without thermal noise
        sinr_db     float  dB   the same over thermal noise, jammers, non-neighbours and residual self-interference;
                                null without any
        epsilon     float  -    one-slot epsilon of tx towards rx (Theorem 1); largest over the blocks of the payload;
                                null where pairs share noise or nodes send on what they received (passes, hubs)
        + access
    """,
    "blocks": """
        round      int    -    round t, from 1
        slot       int    -    slot of the payload, from 0
        subband    int    -    subband, from 0, the lowest frequency first
        tx         int    -    sender
        rx         int    -    receiver
        gain       float  -    |h|, amplitude, in this block
        gain_est   float  -    the receiver's estimate of |h|
        phase_rad  float  rad  phase in the middle of the block; null where all are aligned
        weight     float  -    entry A[rx, tx] of the block's mixing matrix; mean over symbols
        epsilon    float  -    one-slot epsilon of tx towards rx if all of a sample's change fell into this block; null
                               where links.epsilon is
    """,
    "clients": """
        node           int     -  node number, from 0
        samples        int     -  training samples that the node holds
        sampling_rate  float   -  q, sampling rate for amplification: batch size over samples; 1 if sampling gives none
        sensitivity    float   -  largest change of the clipped gradient by one unit (privacy.unit, privacy.adjacency)
        epoch_rounds   int     -  rounds per epoch under shuffled sampling; 1 otherwise
        class_counts   counts  -  number of samples of each class; for a regression, one entry with all samples
        budget_w       float   W  most power that the node may radiate
    """,
    "events": """
        time_s  float  s  simulated time
        node    int    -  node; null for an event of the whole network
        kind    label  -  kind of event, see above
        detail  text   -  details, text
    """,
    "privacy": """
        tx             int    -  sender whose data is protected
        rx             int    -  receiver that observes; null: no single receiver, see view
        view           label  -  own: only the sender's own noise counts, all others collude; coalition: also what
                                 honest partners hide, against any c nodes; link: all noise that the receiver hears
                                 counts
        status         label  -  proven; declared: what an update says of itself, which twins did not refute; or
                                 unproven: a mechanism's word, or the paper's sum over rounds
        accountant     label  -  method that composed the releases
        unit           label  -  what is protected: one sample, or all data of one node
        adjacency      label  -  neighbouring relation of data sets
        sampler        label  -  sampling method of batches
        clipping       label  -  clipping method
        delta          float  -  delta of the total
        rounds         int    -  number of charged releases
        epsilon_total  float  -  epsilon of all releases so far
    """,
}


def _fields(table: str) -> Iterator[pa.Field]:
    given: list[list[str]] = []
    for line in _COLUMNS[table].strip().splitlines():
        if line.strip() == "+ access":
            given += [[name, kind, unit, text] for name, kind, unit, text in columns(table)]
        elif line.startswith(" " * 12):
            given[-1][3] += f" {line.strip()}"
        else:
            name, kind, unit, text = line.split(maxsplit=3)
            given.append([name, kind, "" if unit == "-" else unit, text])
    for name, kind, unit, text in given:
        yield pa.field(name, _KINDS[kind], metadata={"unit": unit, "meaning": text})


TABLES: dict[str, pa.Schema] = {
    name: pa.schema(list(_fields(name)), metadata={"wirelessdl_schema": str(VERSION)}) for name in _COLUMNS
}


def part_schema(name: str, first_round: int, last_round: int) -> pa.Schema:
    """Schema of one part, which says what rounds it covers, rows or not."""
    schema = TABLES[name]
    return schema.with_metadata({**schema.metadata, _ROUNDS: f"{first_round}-{last_round}"})


def covered_rounds(schema: pa.Schema) -> tuple[int, int]:
    """First and last round that a part covers."""
    first, _, last = schema.metadata[_ROUNDS].decode().partition("-")
    return int(first), int(last)
