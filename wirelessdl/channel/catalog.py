"""Built-in channel models by the name scenarios use."""

from wirelessdl.channel.fading import Nakagami, Rayleigh, Rician, Uniform
from wirelessdl.channel.pathloss.distance import Friis, LogDistance, Matrix, Range, ThreeLogDistance, TwoRay
from wirelessdl.channel.pathloss.standard import InhOffice, Rma, SidelinkHighway, SidelinkUrban, Uma, UmiStreetCanyon
from wirelessdl.channel.replay import Replay
from wirelessdl.channel.shadowing import Shadowing

CHANNELS = {
    "friis": Friis,
    "log-distance": LogDistance,
    "matrix": Matrix,
    "range": Range,
    "three-log-distance": ThreeLogDistance,
    "two-ray": TwoRay,
    "inh-office": InhOffice,
    "nakagami": Nakagami,
    "rayleigh": Rayleigh,
    "replay": Replay,
    "rician": Rician,
    "rma": Rma,
    "shadowing": Shadowing,
    "sidelink-highway": SidelinkHighway,
    "sidelink-urban": SidelinkUrban,
    "uma": Uma,
    "umi-street-canyon": UmiStreetCanyon,
    "uniform": Uniform,
}
