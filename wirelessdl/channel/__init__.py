"""Channel models: |h| per link, vectorised.

Models chain with `>>`: `LogDistance(3.5e9) >> Shadowing() >> Rayleigh()`.
"""

from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician, Uniform
from wirelessdl.channel.los import ChannelCondition
from wirelessdl.channel.model import Composable, Composite, compose
from wirelessdl.channel.ns3 import Ns3
from wirelessdl.channel.pathloss.distance import Friis, LogDistance, Matrix, Range, ThreeLogDistance, TwoRay
from wirelessdl.channel.pathloss.lookup import los_probability, path_loss_db
from wirelessdl.channel.pathloss.standard import InhOffice, Rma, SidelinkHighway, SidelinkUrban, Uma, UmiStreetCanyon
from wirelessdl.channel.replay import Replay
from wirelessdl.channel.shadowing import Shadowing
from wirelessdl.channel.sionna_rt import SionnaRt
from wirelessdl.channel.tdl import Tdl

# by the name scenarios use
CHANNELS: dict[str, type[Composable]] = {
    "friis": Friis,
    "log-distance": LogDistance,
    "matrix": Matrix,
    "range": Range,
    "three-log-distance": ThreeLogDistance,
    "two-ray": TwoRay,
    "inh-office": InhOffice,
    "nakagami": Nakagami,
    "ns3": Ns3,
    "rayleigh": Rayleigh,
    "replay": Replay,
    "rician": Rician,
    "rma": Rma,
    "shadowing": Shadowing,
    "sidelink-highway": SidelinkHighway,
    "sidelink-urban": SidelinkUrban,
    "sionna-rt": SionnaRt,
    "tdl": Tdl,
    "uma": Uma,
    "umi-street-canyon": UmiStreetCanyon,
    "uniform": Uniform,
}
for _name, _model in CHANNELS.items():
    _model.scenario_name = _name

__all__ = [
    "CHANNELS",
    "ChannelCondition",
    "Composite",
    "Friis",
    "InhOffice",
    "LogDistance",
    "Matrix",
    "Nakagami",
    "Ns3",
    "Range",
    "Rayleigh",
    "Replay",
    "Rician",
    "Rma",
    "Shadowing",
    "SidelinkHighway",
    "SidelinkUrban",
    "SionnaRt",
    "Tdl",
    "ThreeLogDistance",
    "TwoRay",
    "Uma",
    "UmiStreetCanyon",
    "Uniform",
    "compose",
    "los_probability",
    "path_loss_db",
]
