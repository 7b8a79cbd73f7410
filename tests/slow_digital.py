"""Digital access in plain loops: rounding number by number, attempts link by link; no code of the package's own."""

import math

import numpy as np
import torch


class SlowDigital:
    def __init__(self, world, channel):
        self.world, self.channel, self.radio, self.K = world, channel, world.scenario.radio, world.nodes
        self.m = world.learning.learner.size
        radio = self.radio
        self.bits = radio.quantizer_bits * self.m + 32 * math.ceil(self.m / radio.quantizer_block)

    def rounded(self, t, w):
        """Q(w) of every node's w, by the dither of round t."""
        dither = torch.empty(self.K, self.m, dtype=torch.float64)
        self.world.learning.draws.fill_dither(dither, t, range(self.K))
        return [self._row(w[j].tolist(), dither[j].tolist()) for j in range(self.K)]

    def _row(self, w, u):
        top, block, out = 2**self.radio.quantizer_bits - 1, self.radio.quantizer_block, []
        for start in range(0, self.m, block):
            largest = max(abs(v) for v in w[start : start + block])
            scale = float(np.float32(largest))
            if scale < largest:
                scale = float(np.nextafter(np.float32(largest), np.float32(math.inf)))
            for v, offset in zip(w[start : start + block], u[start : start + block]):
                if scale == 0:
                    out.append(0.0)
                    continue
                step = 2 * scale / top
                out.append(min(max(math.floor((v + scale) / step + offset), 0), top) * step - scale)
        return np.array(out)

    def deliver(self, frame, opened_ns, sends, neighbours, heard, turn):
        """decoded[i][j]: attempt in which i had j's message, 0 for never; attempts of each; duration of the frame, ns.

        neighbours, heard: of each receiver, who sends and is in another turn.
        """
        radio, fixed, K = self.radio, self.world.frame, self.K
        gap = 10 ** (radio.gap_db / 10)

        def sinr(i, j, gain, sending, jammed):
            power = self.world.power_w
            strangers = sum(
                gain[i][k] ** 2 * power[k]
                for k in heard[i]
                if k not in neighbours[i] and turn[k] == turn[j] and sending[k] and k != j
            )
            noise = self.world.thermal_w + strangers + (frame.jammer_w[i] if jammed else 0.0)
            signal = gain[i][j] ** 2 * power[j]
            return math.inf if noise == 0 else signal / noise

        rate, planned = [0.0] * K, [set() for _ in range(K)]
        for j in range(K):
            reach = [i for i in range(K) if j in neighbours[i]]
            margin = gap * 10 ** (radio.fade_margin_db / 10)
            wanted = {i: math.log2(1 + sinr(i, j, frame.mean, sends, False) / margin) for i in reach}
            planned[j] = {i for i in reach if min(wanted[i], radio.rate_max_bps_hz) >= radio.rate_min_bps_hz}
            planned[j] = planned[j] or set(reach)
            rate[j] = min([radio.rate_max_bps_hz, *(wanted[i] for i in planned[j])])
            rate[j] = max(rate[j], radio.rate_min_bps_hz)
            if radio.rate_bps_hz != "auto":
                rate[j], planned[j] = radio.rate_bps_hz, set(reach)
        slots = len(frame.slots)
        symbols = [math.ceil(math.ceil(self.bits / rate[j]) / slots) for j in range(K)]
        decoded, known = [[0] * K for _ in range(K)], [[0.0] * K for _ in range(K)]
        attempts, passed_ns = [0] * K, fixed.feedback_ns
        sending, gains = list(sends), [slot.gain for slot in frame.slots]
        for attempt in range(1, radio.attempts + 1):
            slot_ns = 0
            for number in sorted({turn[j] for j in range(K) if sending[j]}):
                longest = max(symbols[j] for j in range(K) if sending[j] and turn[j] == number)
                payload_ns = round(longest / radio.bandwidth_hz * 1e9)
                slot_ns += fixed.pilot_ns + fixed.guard_ns + payload_ns + fixed.guard_ns
            if attempt > 1:
                gains = [self.channel.again((opened_ns + passed_ns + n * slot_ns) / 1e9) for n in range(slots)]
            passed_ns += slots * slot_ns
            for j in [j for j in range(K) if sending[j]]:
                attempts[j] += 1
                for i in [i for i in range(K) if j in neighbours[i]]:
                    got = sum(math.log2(1 + sinr(i, j, gain, sending, True) / gap) for gain in gains) / slots
                    known[i][j] = known[i][j] + got if radio.combining else got
                    if not decoded[i][j] and known[i][j] >= self.bits / (symbols[j] * slots):
                        decoded[i][j] = attempt
            sending = [sends[j] and any(not decoded[i][j] for i in planned[j]) for j in range(K)]
            if not any(sending):
                break
        if not any(sends):
            passed_ns += fixed.pilot_ns + 2 * fixed.guard_ns
        return decoded, attempts, passed_ns

    def weights(self, i, decoded, sends, neighbours, listens):
        """Row i of A: Metropolis by the graph's degrees over links that carried both messages, the rest its own."""
        row = [0.0] * self.K
        has = [j for j in neighbours[i] if decoded[i][j]]
        if listens:
            for j in has:
                row[j] = 1 / len(has)
        else:
            for j in [j for j in has if sends[i] and i in neighbours[j] and decoded[j][i]]:
                degrees = [sum(a in neighbours[b] for b in neighbours[a]) for a in (i, j)]
                row[j] = 1 / (1 + max(degrees))
        row[i] = 1 - sum(row)
        return row
