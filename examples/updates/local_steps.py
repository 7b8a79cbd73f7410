"""Local steps of one node: `change` is clipped as a whole, so totals are proven, 2C per release."""


class LocalSteps:
    def __init__(self, steps: int = 5, rate: float = 0.1):
        self.steps, self.rate = steps, rate

    def change(self, received, state, gradient, round):
        point = received
        for _ in range(self.steps):
            point = point - self.rate * gradient(point)  # each call draws a new batch
        return (point - received) / self.rate, state
