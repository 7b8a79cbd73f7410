"""Carrier and timing offsets symbol by symbol, in complex numbers and absolute times; no code of the package's own."""

import cmath
import math

import numpy as np


class SlowOffsets:
    """What receiver i gets of sender j: the phase of an instant, and the share of each symbol that falls into it."""

    def __init__(self, world):
        self.frame, self.K = world.frame, world.nodes
        radio = world.scenario.radio
        self.subbands, self.bandwidth_hz = radio.subbands, radio.bandwidth_hz
        self.period_s = radio.subbands / radio.bandwidth_hz
        self.f, self.d = (
            list(value) if isinstance(value, list) else [value] * self.K
            for value in (radio.cfo_hz, radio.timing_offset_s)
        )
        self.one_at_a_time = radio.access.name == "tdma"

    def received(self, i, j, w, phase, slot, classes):
        """w: what j sends in this slot, coordinate by coordinate; likewise what i gets of it, without gain."""
        count = math.ceil(len(w) / 2)
        symbols = [complex(w[2 * n], w[2 * n + 1] if 2 * n + 1 < len(w) else 0.0) for n in range(count)]
        share = (self.d[j] - self.d[i]) / self.period_s
        out = np.zeros(len(w))
        for n in range(count):
            heard = (1 - abs(share)) * symbols[n]
            if share > 0 and n > 0:
                heard += share * symbols[n - 1]
            if share < 0 and n + 1 < count:
                heard += -share * symbols[n + 1]
            got = heard * cmath.exp(1j * (phase + self._gained(i, j, n, slot, classes)))
            out[2 * n] = got.real
            if 2 * n + 1 < len(w):
                out[2 * n + 1] = got.imag
        return out

    def kept(self, i, j, phase, slot, classes):
        """What is left of a coordinate, on average over the slot's symbols."""
        share = (self.d[j] - self.d[i]) / self.period_s
        count = math.ceil(self.frame.symbols / self.subbands)
        total = sum(math.cos(phase + self._gained(i, j, n, slot, classes)) for n in range(count))
        return (1 - abs(share)) * total / count

    def _gained(self, i, j, n, block, classes):
        """2 pi (f_j - f_i) (t - t_pilot), times from the start of j's turn; less what a delay turns."""
        frame = self.frame
        slot, subband = divmod(block, self.subbands)
        centre_hz = (subband + 0.5) * self.bandwidth_hz / self.subbands - self.bandwidth_hz / 2
        delayed = 2 * math.pi * centre_hz * (self.d[j] - self.d[i])
        place = 0 if self.one_at_a_time else sum(classes is None or classes[k] == classes[j] for k in range(j))
        pilot_s = (place * frame.own_pilot_ns + frame.own_pilot_ns / 2) / 1e9
        payload_s = (frame.pilot_ns + frame.guard_ns) / 1e9
        if slot == 0 and (classes is None or classes[j] == 0):
            payload_s += frame.feedback_ns / 1e9
        return 2 * math.pi * (self.f[j] - self.f[i]) * (payload_s + (n + 0.5) * self.period_s - pilot_s) - delayed
