"""Attackers in plain loops: what each sends in place of its payload, scaled down to its power."""

import math


class SlowAttack:
    """world: with `faults.byzantine`; alpha: of the plan, power at its budget."""

    def __init__(self, world):
        self.part, self.attackers = world.scenario.faults.byzantine, world.learning.settings.attackers
        self.streams, self.first = world.streams, {}

    def lies(self, node, t):
        return self.attackers is not None and t >= self.attackers.from_round and node in self.attackers.nodes

    def sent(self, t, honest, sends, alpha, step=0):
        """What every node sends in round t. honest: list of [m]; sends: who is on air."""
        found = list(honest)
        who = [a for a in range(len(sends)) if sends[a] and self.lies(a, t)]
        if not who:
            return found
        rng, size = self.streams.draws("faults.byzantine", t, step), len(honest[0])
        factor = self.part.parameters.get("factor", 1.0)
        drawn = rng.standard_normal((len(who), size)) if self.part.name == "noise" else None
        for row, a in enumerate(who):
            limit = 1.0 / alpha[a]
            self.first.setdefault(a, honest[a].copy())
            value = {
                "sign-flip": lambda a=a: -factor * honest[a],
                "noise": lambda row=row, limit=limit: math.sqrt(factor * limit) * drawn[row],
                "zero": lambda a=a: 0.0 * honest[a],
                "replay": lambda a=a: self.first[a],
            }[self.part.name]()
            square = sum(v * v for v in value.tolist()) / size
            found[a] = value * math.sqrt(limit / square) if square > limit else value
        return found
