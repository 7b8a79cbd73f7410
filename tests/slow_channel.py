"""Steps 1, 2 and 4 of a round in plain loops: where nodes are, who hears whom, gains, and the first power plan.

It asks the parts themselves (mobility, topology, channel models, CSI) with streams keyed as the design says, and
shares no code with the observer, the planner or the allocator. Matrices are dense, [rx][tx].
"""

import cmath
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from wirelessdl import counter_rng
from wirelessdl.links import Instants, Links


def batch_size(world, node):
    """Samples of a node's batch: a number, or a share of what it has."""
    learning, samples = world.scenario.learning, len(world.client_indices[node])
    if learning.batch_fraction:
        return max(1, round(learning.batch_fraction * samples))
    return learning.batch_size


def sensitivity(world, node):
    """How far one replaced sample moves a node's gradient, clipped as a whole or sample by sample."""
    per_sample = world.scenario.privacy.clipping == "per-sample"
    exact = 2 * world.scenario.privacy.clip_norm / (batch_size(world, node) if per_sample else 1)
    return exact + world.learning.rounding[node]  # charged, too: tests/learning/test_clipping.py has its bound


@dataclass
class SlowSlot:
    gain: np.ndarray
    est: np.ndarray
    phase: np.ndarray


@dataclass
class SlowFrame:
    neighbours: list[list[int]]  # of each receiver, by the graph
    heard: list[list[int]]  # of each receiver, by the air
    mean: np.ndarray
    slots: list[SlowSlot]  # one for every subband of every slot
    jammer_w: np.ndarray


class SlowChannel:
    def __init__(self, world):
        self.world, self.scenario, self.K = world, world.scenario, world.nodes
        self.calls = 0
        radio = world.scenario.radio
        self.in_flight = radio.flight_time and radio.access.name == "oac"

    def frame(self, t, time_s):
        world, K = self.world, self.K
        geometry = world.mobility.geometry(time_s)
        graph = [[False] * K for _ in range(K)]
        links = world.links
        if getattr(world.topology, "follows_motion", False):
            links = world.topology.links(geometry, world.snr_db, world.streams.world("network.topology"))
        for i, j in zip(links.rx.tolist(), links.tx.tolist()):
            graph[i][j] = True
        physical = self.scenario.radio.interference == "physical"
        audible = np.array([[i != j and (physical or graph[i][j]) for j in range(K)] for i in range(K)])
        jammer_w = world.jammer.noise_w(geometry, time_s)
        self.audible, slots, mean = audible, [], None
        for n in range(world.frame.slots):
            key = (t,) if n == 0 else (t, n)
            when_s = time_s + self._opens_ns(n) / 1e9
            here = Links.from_mask(audible, world.mobility.geometry(when_s))
            subbands, rms, turned = self._gains(here, when_s)
            mean = here.matrix(rms) if mean is None else mean
            noise_w = np.array([world.thermal_w + jammer_w[i] for i in here.rx.tolist()])
            for k, now in enumerate(subbands):
                own = key if k == 0 else (t, n, k)
                est = world.csi.estimate(here, now, world.power_w, noise_w, world.streams.draws("radio.csi", *own))
                # of a complex estimate the real part counts, and alignment is off by its angle
                off, est = here.matrix(np.angle(est)), here.matrix(np.maximum(np.real(est), 0.0))
                phase = self._phases(here, key, own, graph) + np.where(graph, off, 0.0)
                if self.in_flight:
                    phase = self._one_phase(here, graph, est, here.matrix(turned[k]), k, key) + off
                slots.append(SlowSlot(here.matrix(now), est, phase))
        neighbours = [[j for j in range(K) if graph[i][j]] for i in range(K)]
        heard = [[j for j in range(K) if audible[i][j]] for i in range(K)]
        return SlowFrame(neighbours, heard, mean, slots, jammer_w)

    def again(self, time_s):
        """Gains of what is heard in the last frame, at a later instant."""
        here = Links.from_mask(self.audible, self.world.mobility.geometry(time_s))
        return here.matrix(self._gains(here, time_s)[0])

    def _opens_ns(self, slot):
        """Slots follow each other in all their turns; the plan's feedback comes before the first payload."""
        frame = self.world.frame
        turn_ns = frame.pilot_ns + frame.guard_ns + frame.payload_ns + frame.guard_ns
        return slot * frame.turns * turn_ns + (frame.feedback_ns if slot > 0 else 0)

    def _gains(self, links, time_s):
        """Amplitudes multiply, subband by subband; the mean leaves small-scale fading out."""
        self.calls += 1
        radio = self.scenario.radio
        centres = [
            (k + 0.5) * radio.bandwidth_hz / radio.subbands - radio.bandwidth_hz / 2 for k in range(radio.subbands)
        ]
        now, mean = [[1.0] * len(links) for _ in centres], [1.0] * len(links)
        models = self.world.channel.models
        turned = [[0.0] * len(links) for _ in centres]
        if self.in_flight and not any(hasattr(named.model, "response") for named in models):
            word = counter_rng.key(self.world.streams.draws("channel.phase"))
            pair = (2 * math.pi * counter_rng.uniform(word, links.pair)[0]).tolist()
            turned = [list(pair) for _ in centres]
        for named in models:
            rng = self.world.streams.draws(named.stream, self.calls)
            if self.in_flight and hasattr(named.model, "amplitudes"):
                h = (
                    named.model.response(links, time_s, np.array(centres), rng)
                    if hasattr(named.model, "response")
                    else named.model.amplitudes(Instants((links,), (time_s,)), lambda _, rng=rng: rng)
                )
                for k, row in enumerate(now):
                    for n, value in enumerate(h[k % len(h)].tolist()):
                        row[n] *= abs(value)
                        turned[k][n] += cmath.phase(value)
                continue
            if radio.subbands > 1 and hasattr(named.model, "response"):
                for k, row in enumerate(named.model.response(links, time_s, np.array(centres), rng).tolist()):
                    for n, value in enumerate(row):
                        now[k][n] *= abs(value)
                continue
            for n, value in enumerate(named.model.gain(links, time_s, rng).tolist()):
                for row in now:
                    row[n] *= value
                if not getattr(named.model, "small_scale", False):
                    mean[n] *= value
        return [np.array(row) for row in now], np.array(mean), [np.array(row) for row in turned]

    def _one_phase(self, links, graph, est, phase, subband, key):
        """What is left at each receiver after the sender removed the phase of its strongest neighbour."""
        radio, K = self.scenario.radio, self.K
        fades = any(hasattr(named.model, "amplitudes") for named in self.world.channel.models)
        hz = (subband + 0.5) * radio.bandwidth_hz / radio.subbands - radio.bandwidth_hz / 2
        hz += 0.0 if fades else self.scenario.channel.frequency_hz
        position_m, left = links.geometry.position_m, np.zeros((K, K))
        way = [[math.dist(position_m[i], position_m[j]) / 299792458 for j in range(K)] for i in range(K)]
        for j in range(K):
            best = max((i for i in range(K) if graph[i][j]), key=lambda i: est[i][j])
            for i in range(K):
                if i != j:
                    left[i][j] = (phase[i][j] - phase[best][j]) - 2 * math.pi * hz * (way[i][j] - way[best][j])
                    if radio.phase_error_rad:
                        word = counter_rng.key(self.world.streams.draws("radio.phase", *key))
                        left[i][j] += radio.phase_error_rad * counter_rng.normal(word, np.array([i * K + j]))[0]
        return left

    def _phases(self, links, key, own, graph):
        """What is left after alignment at neighbours, in all of a slot; anything at strangers, whom nobody aligns."""
        deviation, K = self.scenario.radio.phase_error_rad, self.K
        draws = self.world.streams.draws
        phase = np.zeros((K, K))
        for i, j in zip(links.rx.tolist(), links.tx.tolist()):
            number = np.array([i * K + j])
            if not graph[i][j]:
                word = counter_rng.key(draws("radio.stranger_phase", *own))
                phase[i][j] = 2 * math.pi * counter_rng.uniform(word, number)[0][0]
            elif deviation:
                phase[i][j] = deviation * counter_rng.normal(counter_rng.key(draws("radio.phase", *key)), number)[0]
        return phase


class SlowPlan:
    """alpha and theta for the mean gains: docs/power.md, one row per link that is heard."""

    def __init__(self, world, frame):
        self.world, self.frame, self.K = world, frame, world.nodes
        self.power, self.privacy = world.scenario.power, world.scenario.privacy
        balanced = bool(self.power.balance)
        if not math.isfinite(self.privacy.epsilon_max):
            self.alpha = np.ones(self.K)
            self.theta = float(self.K) if balanced else self._peak(self.alpha)
            return
        theta = float(self.K)
        for _ in range(50):
            alpha = self._split(theta)
            found = theta if balanced else self._peak(alpha)
            if abs(found - theta) <= 1e-9 * theta:
                break
            theta = found
        self.alpha, self.theta = alpha, theta

    def _split(self, theta):
        K, P, rho = self.K, self.world.power_w, self.privacy.rho
        sens = [sensitivity(self.world, j) for j in range(K)]
        nu = math.sqrt(2 * math.log(1.25 / self.privacy.delta)) / self.privacy.epsilon_max
        low, high = self.power.least_alpha(self.K), 1 - self.power.beta_min
        if self.power.objective == "own-noise":
            return np.array([min(1 / (1 + (sens[j] * theta * nu / rho) ** 2), high) for j in range(K)])
        assert self.power.objective == "sum"
        rows, most = [], []
        for i in range(K):
            masking = sum(self.frame.mean[i][k] ** 2 * P[k] * rho**2 for k in self.frame.heard[i])
            for j in self.frame.heard[i]:
                row = [0.0] * K
                row[j] += (sens[j] * theta * nu) ** 2 * self.frame.mean[i][j] ** 2 * P[j]
                for k in self.frame.heard[i]:
                    row[k] += self.frame.mean[i][k] ** 2 * P[k] * rho**2
                rows.append([value / masking for value in row])
                most.append(1.0)
        return linprog([-1.0] * K, A_ub=rows, b_ub=most, bounds=[(low, high)] * K).x

    def _peak(self, alpha):
        """Largest 1 / z_ii of Z_t = A Z_{t-1} on its way to its limit."""
        K, P = self.K, self.world.power_w
        A = np.zeros((K, K))
        for i in range(K):
            heard = {j: self.frame.mean[i][j] * math.sqrt(alpha[j] * P[j]) for j in self.frame.neighbours[i]}
            d, c = len(heard), sum(heard.values()) / len(heard)
            A[i][i] = 1 / (d + 1)
            for j, amplitude in heard.items():
                A[i][j] = amplitude / (c * (d + 1))
        Z, peak = np.eye(K), 1.0
        for _ in range(5000):
            Z = A @ Z
            peak = max(peak, max(1 / Z[i][i] for i in range(K)))
        return peak
