"""Algorithm 1 in plain loops: node by node, link by link, sample by sample.

It shares with the engine only what is drawn (gains, batches, noise); every sum, norm and matrix is written out here
and in `slow_channel`. The power split is worked out here too and compared with the engine's; a solver's answer is good
to its tolerance, so the engine's own numbers serve from then on. Reads slowly, runs slowly, and is what the engine must
equal.
"""

import math

import numpy as np
import torch
from slow_byzantine import SlowAttack
from slow_channel import SlowChannel, SlowPlan, batch_size, sensitivity
from slow_digital import SlowDigital
from slow_offsets import SlowOffsets


class SlowTwin:
    def __init__(self, world):
        self.world, self.channel, self.offsets = world, SlowChannel(world), SlowOffsets(world)
        self.scenario, self.digital = world.scenario, SlowDigital(world, self.channel)
        self.K, self.attack = world.nodes, SlowAttack(world)
        self.m = world.learning.learner.size
        self.x = [np.zeros(self.m) for _ in range(self.K)]
        self.z = [[1.0 if i == j else 0.0 for j in range(self.K)] for i in range(self.K)]
        self.heard_z = [list(row) for row in self.z]  # what the others last heard of each node
        self.pending = [(0.0, 0.0)] * self.K  # (gamma, multiplier) of the gradient in x that was not sent
        self.alpha = None
        self.s = [np.zeros(self.m) for _ in range(self.K)]  # what each node held after its last slot

    def round(self, t, time_s, plan, cast=None, fallen=(), classes=None, z_lost=()):
        """One round.

        plan: the engine's, to be compared with; cast: who is ready, listens, or lost a gradient; fallen: crashed in the
        frame; classes: halves, or turns: who is in the same one does not hear the other; z_lost: whose z is lost.
        """
        world, privacy, K = self.world, self.scenario.privacy, self.K
        hardened = privacy.protocol == "hardened"
        frame = self.channel.frame(t, time_s)
        self.offsets.begin(t, world.mobility.geometry(time_s).position_m)
        ready = [cast is None or bool(cast.ready[i]) for i in range(K)]
        listening = [cast is not None and bool(cast.listening[i]) for i in range(K)]
        sends = [ready[i] and not listening[i] for i in range(K)]
        for i in range(K):
            if cast is not None and cast.lost[i]:
                self.x[i] = self._project(self.s[i])
                self.pending[i] = (0.0, 0.0)

        def hears(i, j, gain):
            apart = classes is None or classes[i] != classes[j]
            return gain > 0 and ready[i] and sends[j] and apart

        first = frame.slots[0].gain
        neighbours = [[j for j in frame.neighbours[i] if hears(i, j, first[i][j])] for i in range(K)]
        heard = [[j for j in frame.heard[i] if hears(i, j, first[i][j])] for i in range(K)]
        if self.alpha is None:
            own = SlowPlan(world, frame)
            # 1e-6: a linear program's tolerance of 1e-7, and a fixed point's
            np.testing.assert_allclose(plan.alpha, own.alpha, rtol=1e-6)
            np.testing.assert_allclose(plan.theta, own.theta, rtol=1e-6)
            self.alpha, self.theta = plan.alpha, plan.theta
        alpha, P = self.alpha, world.power_w
        gamma = world.schedule.rate(t)

        sigma = []
        for j in range(K):
            aligned = self.pending[j][0] if self.pending[j][0] > 0 else gamma
            sigma.append(privacy.rho * (aligned if hardened else gamma))
        eta = self._normal(t, "noise")
        w = [self.x[j] + sends[j] * math.sqrt((1 - alpha[j]) / alpha[j]) * sigma[j] * eta[j] for j in range(K)]

        if self.scenario.radio.access.name != "digital":
            w = self.attack.sent(t, w, sends, alpha)
        orthogonal = self.scenario.radio.access.name == "tdma"
        thermal = self._normal(t, "thermal")
        share_heard = 10 ** (-self.scenario.radio.cancellation_db / 10)
        s, A, known = [np.zeros(self.m) for _ in range(K)], np.zeros((K, K)), np.zeros((K, K))
        deaf = set()  # who took nothing from the air in some slot
        epsilon = np.full((K, K), -math.inf)
        if self.scenario.radio.access.name == "digital":
            links = [neighbours, heard, classes]
            decoded, self.attempts, self.lasted_ns = self.digital.deliver(frame, round(time_s * 1e9), sends, *links)
            coded = self.digital.rounded(t, w)
            w = [coded[j] if sends[j] else w[j] for j in range(K)]
            attacked = self.attack.sent(t, w, sends, alpha)
            coded = self.digital.rounded(t, attacked)
            w = [w[j] if attacked[j] is w[j] else coded[j] for j in range(K)]
            for i in range(K):
                A[i] = known[i] = self.digital.weights(i, decoded, sends, neighbours, listening[i])
                s[i] = sum(A[i][j] * w[j] for j in range(K))
        for n, slot in enumerate(frame.slots):
            part = self._coordinates(n, len(frame.slots))
            gain, est, phase = slot.gain, slot.est, slot.phase
            weight = [] if orthogonal else self._air_weight(est, neighbours, sends)
            loud = [[j for j in neighbours[i] if self._loud(est[i][j], j)] for i in range(K)]
            for i in range(K) if self.scenario.radio.access.name != "digital" else ():
                d = len(neighbours[i])
                if d == 0:
                    deaf.add(i)
                    s[i][part] = w[i][part]
                    A[i][i] += 1 / len(frame.slots)
                    known[i][i] += 1 / len(frame.slots)
                    continue
                if orthogonal:
                    noise = math.sqrt(world.thermal_w + frame.jammer_w[i]) * thermal[i]
                    got = {j: self.offsets.received(i, j, w[j][part], phase[i][j], n, classes) for j in heard[i]}
                    row = np.zeros(K)
                    s[i][part] = self._one_by_one(i, slot, loud, w[i][part], got, row, noise[part], listening[i])
                    if all(row[j] == 0 for j in neighbours[i]):
                        deaf.add(i)
                    known[i] += row / len(frame.slots)
                    for j, k in [(j, k) for j in loud[i] for k in heard[i] if k not in neighbours[i]]:
                        if classes[j] == classes[k]:  # a stranger that sends in the turn of a neighbour
                            share = row[j] * gain[i][k] / est[i][j] * math.sqrt(alpha[k] * P[k] / (alpha[j] * P[j]))
                            s[i][part] += share * got[k]
                            row[k] += share * self.offsets.kept(i, k, phase[i][k], n, classes)
                    for j in loud[i]:
                        row[j] *= gain[i][j] / est[i][j] * self.offsets.kept(i, j, phase[i][j], n, classes)
                    A[i] += row / len(frame.slots)
                    continue
                if listening[i]:
                    weight[i] = 1.0
                c = sum(est[i][j] * math.sqrt(alpha[j] * P[j]) for j in neighbours[i]) / d
                y = 0.0
                for j in heard[i]:
                    turned = self.offsets.received(i, j, w[j][part], phase[i][j], n, classes)
                    y = y + gain[i][j] * math.sqrt(alpha[j] * P[j]) * turned
                emitted = alpha[i] * P[i] * sum(v * v for v in w[i].tolist()) / self.m
                added_w = world.thermal_w + frame.jammer_w[i] + sends[i] * share_heard * emitted
                y = y + math.sqrt(added_w) * thermal[i][part]
                s[i][part] = weight[i] * y / (c * d) + (1 - weight[i]) * w[i][part]
                A[i][i] += (1 - weight[i]) / len(frame.slots)
                known[i][i] += (1 - weight[i]) / len(frame.slots)
                for j in heard[i]:
                    share = weight[i] * math.sqrt(alpha[j] * P[j]) / (c * d) / len(frame.slots)
                    A[i][j] += share * gain[i][j] * self.offsets.kept(i, j, phase[i][j], n, classes)
                for j in neighbours[i]:
                    share = weight[i] * math.sqrt(alpha[j] * P[j]) / (c * d) / len(frame.slots)
                    known[i][j] += share * est[i][j]
            epsilon = np.fmax(epsilon, self._epsilon(t, gain, heard, sigma, gamma))

        multiplier = [float(K) if self.scenario.power.balance else min(1 / self.z[i][i], self.theta) for i in range(K)]
        steps = [sends[i] and not (len(fallen) and fallen[i]) for i in range(K)]
        for i in range(K):
            if not ready[i] or (listening[i] and (i in deaf or A[i][i] == 1.0)):
                continue
            self.s[i] = s[i]
            g = self._gradient(i, t, s[i] if hardened else self.x[i]) if steps[i] else 0.0
            self.x[i] = self._project(s[i] - gamma * multiplier[i] * g)
            if steps[i]:
                self.pending[i] = (gamma, multiplier[i])
            elif sends[i] or A[i][i] < 1.0:
                self.pending[i] = (0.0, 0.0)
        B = [[float(i == k) for k in range(K)] if listening[i] else known[i] for i in range(K)]
        for k in range(K):
            if sends[k] and not (len(z_lost) and z_lost[k]):
                self.heard_z[k] = list(self.z[k])
        # of a neighbour whose z was lost a node takes what it heard last, of itself what it is
        rows = [[self.heard_z[k] if sends[k] and k != i else self.z[k] for k in range(K)] for i in range(K)]
        self.z = [[sum(B[i][k] * rows[i][k][j] for k in range(K)) for j in range(K)] for i in range(K)]
        return A, epsilon

    def _coordinates(self, n, slots):
        """Block n carries its share of the complex symbols, two coordinates each: slots first, in them subbands."""
        subbands = self.scenario.radio.subbands
        symbols = math.ceil(math.ceil(self.m / 2) / (slots // subbands))

        def first(block):
            return block // subbands * symbols + block % subbands * symbols // subbands

        return slice(2 * first(n), min(2 * first(n + 1), self.m))

    def _project(self, v):
        radius = self.scenario.learning.projection_radius * math.sqrt(self.m)
        length = math.sqrt(sum(c * c for c in v.tolist()))
        return v if length <= radius else v * (radius / length)

    def _loud(self, est, j):
        """Whether a receiver with this estimate of |h| takes j: SNR at j's power budget, in dB, over the threshold."""
        least_db, thermal_w = self.scenario.radio.truncate_snr_db, self.world.thermal_w
        if thermal_w == 0 or est == 0:
            return est > 0
        least_db = 10.0 if least_db == "auto" else least_db
        return 10 * math.log10(est * est * self.world.power_w[j] / thermal_w) >= least_db

    def _one_by_one(self, i, slot, loud, own, got, row, noise, listens):
        """Each loud neighbour divided by its own estimate, then Metropolis weights among those who are loud to each
        other, the rest for the node's own term; a listener takes the mean."""
        alpha, P, mixed, square = self.alpha, self.world.power_w, 0.0, 0.0
        for j in loud[i]:
            if listens:
                row[j] = 1 / len(loud[i])
            elif i in loud[j]:
                both = [sum(a in loud[b] for b in loud[a]) for a in (i, j)]
                row[j] = 1 / (1 + max(both))
            mixed = mixed + row[j] * slot.gain[i][j] / slot.est[i][j] * got[j]
            square += (row[j] / (slot.est[i][j] * math.sqrt(alpha[j] * P[j]))) ** 2
        row[i] = 1 - row.sum()
        return mixed + row[i] * own + math.sqrt(square) * noise

    def _air_weight(self, gain, neighbours, sends):
        """d/(d+1), or receiver balancing by power iteration over those who send and hear each other."""
        K, alpha, P = self.K, self.alpha, self.world.power_w
        paper = [len(neighbours[i]) / (len(neighbours[i]) + 1) for i in range(K)]
        if not self.scenario.power.balance:
            return paper
        share = np.eye(K)
        group = [i for i in range(K) if sends[i] and neighbours[i]]
        for i in group:
            share[i][i] = 0.0
            total = sum(gain[i][k] * math.sqrt(alpha[k] * P[k]) for k in neighbours[i])
            for j in neighbours[i]:
                share[i][j] = gain[i][j] * math.sqrt(alpha[j] * P[j]) / total
        p = np.array([float(i in group) / max(1, len(group)) for i in range(K)])
        for _ in range(20000):  # lazy walk: converges on periodic graphs too
            p = 0.5 * p + 0.5 * p @ share
        kappa = min((paper[i] / p[i] for i in group), default=0.0)
        return [kappa * p[i] for i in range(K)]

    def _epsilon(self, t, gain, neighbours, sigma, gamma):
        """Theorem 1 on every link: hardened by the gradient carried, paper as printed with theta."""
        world, privacy = self.world, self.scenario.privacy
        alpha, P = self.alpha, world.power_w
        factor = math.sqrt(2 * math.log(1.25 / privacy.delta))
        epsilon = np.full((self.K, self.K), np.nan)
        if not math.isfinite(privacy.epsilon_max):
            return epsilon
        for i in range(self.K):
            for j in neighbours[i]:
                masking = 0.0
                for k in neighbours[i]:
                    apart = abs(self.offsets.late(i, k))
                    least = 1.0 if k == j else max(0.0, 1 - 2 * apart)
                    if k != j and self.attack.lies(k, t):  # what it sent may have no noise
                        least = 0.0
                    masking += least**2 * gain[i][k] ** 2 * (1 - alpha[k]) * P[k] * sigma[k] ** 2
                if self.scenario.radio.access.name != "oac":
                    masking = gain[i][j] ** 2 * (1 - alpha[j]) * P[j] * sigma[j] ** 2
                step = gamma * self.theta
                if privacy.protocol == "hardened":
                    step = self.pending[j][0] * self.pending[j][1]
                shift = sensitivity(world, j) * step * gain[i][j] * math.sqrt(alpha[j] * P[j])
                epsilon[i][j] = shift / math.sqrt(masking) * factor
        return epsilon

    def _gradient(self, i, t, point):
        """Clipped softmax gradient, sample by sample."""
        privacy, data = self.scenario.privacy, self.world.data
        client = self.world.client_indices[i]
        batch = client[self.world.learning.draws.batch(i, t, len(client), batch_size(self.world, i))]
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
                if not np.linalg.norm(g) < 1e150:  # not finite: counts as zero
                    continue
                g *= min(1.0, privacy.clip_norm / np.linalg.norm(g))
            total += g / len(batch)
        if not np.linalg.norm(total) < 1e150:
            return np.zeros(total.size)
        if privacy.clipping == "batch":
            total *= min(1.0, privacy.clip_norm / np.linalg.norm(total))
        return total.reshape(-1)

    def _normal(self, t, purpose):
        out = torch.empty(self.K, self.m, dtype=torch.float64)
        self.world.learning.draws.fill_normal(out, t, purpose)
        return out.numpy()
