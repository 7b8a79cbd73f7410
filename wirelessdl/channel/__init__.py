"""The air between nodes: |h| per link, vectorised.

Models chain with `>>`: `LogDistance(3.5e9) >> Shadowing() >> Rayleigh()`.
"""

from wirelessdl.channel.cellular import InhOffice, Rma, SidelinkHighway, SidelinkUrban, Uma, UmiStreetCanyon
from wirelessdl.channel.condition import ChannelCondition
from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician, Uniform
from wirelessdl.channel.loss import los_probability, path_loss_db
from wirelessdl.channel.model import Composite, compose
from wirelessdl.channel.pathloss import Friis, LogDistance, Matrix, Range, ThreeLogDistance, TwoRay
from wirelessdl.channel.shadowing import Shadowing

__all__ = [
    "ChannelCondition",
    "Composite",
    "Friis",
    "InhOffice",
    "LogDistance",
    "Matrix",
    "Nakagami",
    "Range",
    "Rayleigh",
    "Rician",
    "Rma",
    "Shadowing",
    "SidelinkHighway",
    "SidelinkUrban",
    "ThreeLogDistance",
    "TwoRay",
    "Uma",
    "UmiStreetCanyon",
    "Uniform",
    "compose",
    "los_probability",
    "path_loss_db",
]
