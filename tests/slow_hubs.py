"""Announced payloads symbol by symbol, in complex numbers and plain loops; no code of the package's own.

rho_j     rms of what j holds, up to the next 16th of an octave
1/eta_i   max over links aimed at i of W rho / (|g| sqrt P), by the estimate that was announced
sent      of its amplitude a sender takes W rho / (|g_s| sqrt P) eta_aim, at most all of it: c is what that leaves
"""

import math


def rounded_up(rms):
    """The next 2^(n / 16)."""
    if rms == 0:
        return 0.0
    found = 2.0 ** (round(16 * math.log2(rms)) / 16)
    return found if found >= rms else 2.0 ** ((round(16 * math.log2(rms)) + 1) / 16)


def symbols_of(values, subslots):
    """[subslots][symbols] complex; zeros where a model has ended."""
    count = math.ceil(len(values) / (2 * subslots))
    padded = [*values, *[0.0] * (2 * subslots * count - len(values))]
    every = [complex(padded[2 * n], padded[2 * n + 1]) for n in range(subslots * count)]
    return [every[s * count : (s + 1) * count] for s in range(subslots)]


def slow_announced(step, held, noise):
    """What every node holds then, W that each radiates, and the variance that receivers add to the sum of all."""
    size, slots = len(held[0]), len(step.ratio)
    links = range(len(step.rx))
    rho = {j: rounded_up(math.sqrt(sum(v * v for v in held[j]) / size)) for j in {int(j) for j in step.tx}}
    receivers = sorted({int(i) for i in step.rx})

    def announced(s, n):
        return step.announced[s if len(step.announced) > 1 else 0][n]

    scale = {
        (i, s): max(
            (step.weight[n] * rho[int(step.tx[n])] * announced(s, n) for n in links if step.rx[n] == step.aim[n] == i),
            default=0.0,
        )
        for i in receivers
        for s in range(slots)
    }
    amplitude = {}  # of a sender in a sub-slot, over its largest
    sums = {i: [0j] * (slots * len(symbols_of(held[0], slots)[0])) for i in receivers}
    for n in links:
        i, j, aim = int(step.rx[n]), int(step.tx[n]), int(step.aim[n])
        symbols = symbols_of(held[j], slots)
        late = 0.0 if step.late is None else float(step.late[n])
        for s in range(slots):
            wanted = 1.0
            if step.needed is not None:
                wanted = step.weight[n] * rho[j] * step.needed[s][n] / scale[aim, s] if scale[aim, s] else 0.0
            amplitude.setdefault((j, s), min(wanted, 1.0))
            limited = 1.0 / wanted if wanted > 1.0 else 1.0
            here = scale[i, s] / scale[aim, s] if i != aim else 1.0
            factor = step.weight[n] * limited * here * complex(step.ratio[s][n])
            count = len(symbols[s])
            for t in range(count):
                arrives = (1 - abs(late)) * symbols[s][t]
                if late > 0 and t > 0:
                    arrives += late * symbols[s][t - 1]
                if late < 0 and t + 1 < count:
                    arrives -= late * symbols[s][t + 1]
                sums[i][s * count + t] += factor * arrives
    count = len(symbols_of(held[0], slots)[0])
    after = [list(row) for row in held]
    variance = 0.0
    for place, i in enumerate(receivers):
        for c in range(size):
            got = sums[i][c // 2]
            added = scale[i, c // (2 * count)] * math.sqrt(step.noise_w[i]) * noise[place][c]
            after[i][c] = step.own[i] * held[i][c] + (got.imag if c % 2 else got.real) + added
        variance += sum(scale[i, s] ** 2 * step.noise_w[i] for s in range(slots)) / slots * step.reaches**2
    power = [0.0] * len(held)
    for (j, s), share in amplitude.items():
        energy = sum(abs(symbol) ** 2 for symbol in symbols_of(held[j], slots)[s])
        power[j] += step.power_w[j] * share**2 * energy / size / (rho[j] ** 2 or 1.0)
    return after, power, variance
