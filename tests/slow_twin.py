"""Algorithm 1 in plain loops: node by node, link by link, sample by sample, from MATH sections 1 to 4.

It shares with the engine only what is drawn (gains, batches, noise) and the power split; every sum,
norm and matrix is written out here. Reads slowly, runs slowly, and is what the engine must equal.
"""

import math

import numpy as np
import torch

from wirelessdl.sim.observer import Observer


class SlowTwin:
    def __init__(self, world):
        self.world, self.observer = world, Observer(world)
        self.scenario = world.scenario
        self.K = world.nodes
        self.m = world.learning.learner.size
        self.x = [np.zeros(self.m) for _ in range(self.K)]
        self.z = [[1.0 if i == j else 0.0 for j in range(self.K)] for i in range(self.K)]
        self.carried = [(0.0, 0.0)] * self.K  # (gamma, multiplier) of the gradient in x
        self.alpha = None

    def round(self, t, time_s):
        world, privacy, K = self.world, self.scenario.privacy, self.K
        hardened = privacy.protocol == "hardened"
        seen = self.observer.look(t, time_s)
        neighbours = [[] for _ in range(K)]
        for i, j in zip(seen.links.rx.tolist(), seen.links.tx.tolist()):
            neighbours[i].append(j)
        heard = [[] for _ in range(K)]
        for i, j in zip(seen.heard.rx.tolist(), seen.heard.tx.tolist()):
            heard[i].append(j)
        if self.alpha is None:
            every = None if seen.inside is None else (seen.heard, seen.mean)
            plan = world.plan(seen.links, seen.mean_gain, heard=every)
            self.alpha, self.theta = plan.alpha, plan.theta
        alpha, P = self.alpha, world.power_w
        gamma = world.schedule.rate(t)

        sigma = []
        for j in range(K):
            aligned = self.carried[j][0] if self.carried[j][0] > 0 else gamma
            sigma.append(privacy.rho * (aligned if hardened else gamma))
        eta = self._normal(t, "noise")
        w = [self.x[j] + math.sqrt((1 - alpha[j]) / alpha[j]) * sigma[j] * eta[j] for j in range(K)]

        thermal = self._normal(t, "thermal")
        echo = 10 ** (-self.scenario.radio.cancellation_db / 10)
        s, A, known = [np.zeros(self.m) for _ in range(K)], np.zeros((K, K)), np.zeros((K, K))
        epsilon = np.full((K, K), -math.inf)
        for n, slot in enumerate(seen.slots):
            part = self._coordinates(n, len(seen.slots))
            gain, est = seen.heard.matrix(slot.gain), seen.heard.matrix(slot.gain_est)
            phase = seen.heard.matrix(np.zeros(len(seen.heard)) if slot.phase_rad is None else slot.phase_rad)
            weight = self._air_weight(est, neighbours)
            for i in range(K):
                d = len(neighbours[i])
                c = sum(est[i][j] * math.sqrt(alpha[j] * P[j]) for j in neighbours[i]) / d
                y = 0.0
                for j in heard[i]:
                    turned = self._turned(w[j][part], phase[i][j])
                    y = y + gain[i][j] * math.sqrt(alpha[j] * P[j]) * turned
                emitted = alpha[i] * P[i] * sum(v * v for v in w[i].tolist()) / self.m
                y = y + math.sqrt(world.thermal_w + echo * emitted) * thermal[i][part]
                s[i][part] = weight[i] * y / (c * d) + (1 - weight[i]) * w[i][part]
                A[i][i] += (1 - weight[i]) / len(seen.slots)
                known[i][i] += (1 - weight[i]) / len(seen.slots)
                for j in heard[i]:
                    share = weight[i] * math.sqrt(alpha[j] * P[j]) / (c * d) / len(seen.slots)
                    A[i][j] += share * gain[i][j] * math.cos(phase[i][j])
                for j in neighbours[i]:
                    share = weight[i] * math.sqrt(alpha[j] * P[j]) / (c * d) / len(seen.slots)
                    known[i][j] += share * est[i][j]
            epsilon = np.fmax(epsilon, self._epsilon(gain, heard, sigma, gamma))

        multiplier = [float(K) if self.scenario.power.balance else min(1 / self.z[i][i], self.theta) for i in range(K)]
        new = []
        for i in range(K):
            g = self._gradient(i, t, s[i] if hardened else self.x[i])
            moved = s[i] - gamma * multiplier[i] * g
            radius = self.scenario.learning.projection_radius * math.sqrt(self.m)
            length = math.sqrt(sum(v * v for v in moved.tolist()))
            new.append(moved if length <= radius else moved * (radius / length))
        self.x = new
        self.z = [[sum(known[i][k] * self.z[k][j] for k in range(K)) for j in range(K)] for i in range(K)]
        self.carried = [(gamma, multiplier[i]) for i in range(K)]
        return A, epsilon

    def _coordinates(self, n, slots):
        """Slot n carries its share of the complex symbols, two coordinates each."""
        symbols = math.ceil(math.ceil(self.m / 2) / slots)
        return slice(2 * n * symbols, min(2 * (n + 1) * symbols, self.m))

    def _turned(self, w, phase):
        """Real and imaginary part of symbols a + jb, turned by a phase."""
        out = np.empty_like(w)
        for k in range(0, len(w), 2):
            a, b = w[k], w[k + 1] if k + 1 < len(w) else 0.0
            out[k] = math.cos(phase) * a - math.sin(phase) * b
            if k + 1 < len(w):
                out[k + 1] = math.sin(phase) * a + math.cos(phase) * b
        return out

    def _air_weight(self, gain, neighbours):
        """d/(d+1), or receiver balancing by power iteration."""
        K, alpha, P = self.K, self.alpha, self.world.power_w
        paper = [len(neighbours[i]) / (len(neighbours[i]) + 1) for i in range(K)]
        if not self.scenario.power.balance:
            return paper
        share = np.zeros((K, K))
        for i in range(K):
            total = sum(gain[i][k] * math.sqrt(alpha[k] * P[k]) for k in neighbours[i])
            for j in neighbours[i]:
                share[i][j] = gain[i][j] * math.sqrt(alpha[j] * P[j]) / total
        p = np.full(K, 1 / K)
        for _ in range(20000):  # lazy walk: converges on periodic graphs too
            p = 0.5 * p + 0.5 * p @ share
        kappa = min(paper[i] / p[i] for i in range(K))
        return [kappa * p[i] for i in range(K)]

    def _epsilon(self, gain, neighbours, sigma, gamma):
        """Theorem 1 on every link: hardened by the gradient carried, paper as printed with theta."""
        world, privacy = self.world, self.scenario.privacy
        alpha, P = self.alpha, world.power_w
        factor = math.sqrt(2 * math.log(1.25 / privacy.delta))
        epsilon = np.full((self.K, self.K), np.nan)
        if not math.isfinite(privacy.epsilon_max):
            return epsilon
        for i in range(self.K):
            masking = sum(gain[i][k] ** 2 * (1 - alpha[k]) * P[k] * sigma[k] ** 2 for k in neighbours[i])
            for j in neighbours[i]:
                step = gamma * self.theta
                if privacy.protocol == "hardened":
                    step = self.carried[j][0] * self.carried[j][1]
                shift = world.sensitivity * step * gain[i][j] * math.sqrt(alpha[j] * P[j])
                epsilon[i][j] = shift / math.sqrt(masking) * factor
        return epsilon

    def _gradient(self, i, t, point):
        """Clipped softmax gradient, sample by sample."""
        learning, privacy, data = self.scenario.learning, self.scenario.privacy, self.world.data
        hand = self.world.hands[i]
        batch = hand[self.world.learning.draws.batch(i, t, len(hand), learning.batch_size)]
        W = point.reshape(data.classes, data.features + 1)
        total = np.zeros_like(W)
        for sample in batch:
            pixels = data.train_x[sample].reshape(-1).astype(np.float64)
            a = np.append((pixels / data.scale - data.mean) / data.deviation, 1.0)
            scores = W @ a
            p = np.exp(scores - scores.max())
            p /= p.sum()
            p[data.train_y[sample]] -= 1.0
            g = np.outer(p, a)
            if privacy.clipping == "per-sample":
                g *= min(1.0, privacy.clip_norm / np.linalg.norm(g))
            total += g / len(batch)
        if privacy.clipping == "batch":
            total *= min(1.0, privacy.clip_norm / np.linalg.norm(total))
        return total.reshape(-1)

    def _normal(self, t, purpose):
        out = torch.empty(self.K, self.m, dtype=torch.float64)
        self.world.learning.draws.fill_normal(out, t, purpose)
        return out.numpy()
