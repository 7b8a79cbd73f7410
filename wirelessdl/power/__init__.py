"""Power plans: the split of every node's power between model and noise."""

from wirelessdl.power.allocate import plan_power
from wirelessdl.power.problem import PowerPlan, PowerProblem

__all__ = ["PowerPlan", "PowerProblem", "plan_power"]
