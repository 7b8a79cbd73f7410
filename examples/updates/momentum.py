"""Momentum on received models: `base` sees no data, so totals stay proven and amplified."""


class Momentum:
    def __init__(self, b: float = 0.5):
        self.b = b

    def initial(self, received):  # state before the first round: one row per node
        return {"before": received}

    def base(self, received, state, round):  # where the step starts, where the gradient is taken, the state
        before = received if round == 1 else state["before"]  # x_1 was never received
        return received + self.b * (received - before), received, {"before": received}
