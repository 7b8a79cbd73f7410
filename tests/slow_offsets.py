"""Carrier and timing offsets and flight time, symbol by symbol, in complex numbers and absolute times.

No code of the package's own but its random streams.
"""

import cmath
import math

import numpy as np

from wirelessdl import counter_rng


class SlowOffsets:
    """What receiver i gets of sender j: the phase of an instant, and the share of each symbol that falls into it."""

    def __init__(self, world):
        self.frame, self.K = world.frame, world.nodes
        radio = world.scenario.radio
        self.subbands = radio.subbands
        self.period_s = radio.subbands / radio.bandwidth_hz
        self.f, self.d = (
            list(value) if isinstance(value, list) else [value] * self.K
            for value in (radio.cfo_hz, radio.timing_offset_s)
        )
        self.one_at_a_time = radio.access.name == "tdma"
        self.streams, self.error_s = world.streams, 0.0 if self.one_at_a_time else radio.timing_error_s
        self.in_flight = radio.flight_time and not self.one_at_a_time
        self.way_s = [[0.0] * self.K for _ in range(self.K)]

    def begin(self, t, position_m):
        """Arrival times of a round, beyond those of clocks."""
        word = counter_rng.key(self.streams.draws("radio.timing_error", t))
        for i in range(self.K):
            for j in range(self.K):
                error_s = self.error_s * float(counter_rng.normal(word, np.array([j]))[0])
                way_s = math.dist(position_m[i], position_m[j]) / 299792458 if self.in_flight else 0.0
                self.way_s[i][j] = error_s + way_s

    def late(self, i, j):
        """By how many symbols what j sends is late at i."""
        return (self.d[j] - self.d[i] + self.way_s[i][j]) / self.period_s

    def received(self, i, j, w, phase, slot, classes):
        """w: what j sends in this slot, coordinate by coordinate; likewise what i gets of it, without gain."""
        count = math.ceil(len(w) / 2)
        symbols = [complex(w[2 * n], w[2 * n + 1] if 2 * n + 1 < len(w) else 0.0) for n in range(count)]
        out = np.zeros(len(w))
        for n in range(count):
            # symbol k lies in (k + late, k + 1 + late), the receiver's n in (n, n + 1)
            first = math.floor(n - self.late(i, j))
            near = [k for k in (first, first + 1) if 0 <= k < count]
            heard = sum(self._overlap(k + self.late(i, j), n) * symbols[k] for k in near)
            got = heard * cmath.exp(1j * (phase + self._gained(i, j, n, slot, classes)))
            out[2 * n] = got.real
            if 2 * n + 1 < len(w):
                out[2 * n + 1] = got.imag
        return out

    def kept(self, i, j, phase, slot, classes):
        """What is left of a coordinate, on average over the slot's symbols."""
        count = math.ceil(self.frame.symbols / self.subbands)
        total = sum(math.cos(phase + self._gained(i, j, n, slot, classes)) for n in range(count))
        return self._overlap(self.late(i, j), 0.0) * total / count

    def _overlap(self, one, other):
        """Of two intervals of length one that begin there."""
        return max(0.0, 1.0 - abs(one - other))

    def _gained(self, i, j, n, block, classes):
        """2 pi (f_j - f_i) (t - t_pilot), times from the start of j's turn; pilots see what delays turn."""
        frame = self.frame
        slot = block // self.subbands
        place = 0 if self.one_at_a_time else sum(classes is None or classes[k] == classes[j] for k in range(j))
        pilot_s = (place * frame.own_pilot_ns + frame.own_pilot_ns / 2) / 1e9
        payload_s = (frame.pilot_ns + frame.guard_ns) / 1e9
        if slot == 0 and (classes is None or classes[j] == 0):
            payload_s += frame.feedback_ns / 1e9
        return 2 * math.pi * (self.f[j] - self.f[i]) * (payload_s + (n + 0.5) * self.period_s - pilot_s)
