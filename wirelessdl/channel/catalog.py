"""Built-in channel models by the name scenarios use."""

from wirelessdl.channel.fading import Rayleigh, Rician, Uniform
from wirelessdl.channel.pathloss import Friis, LogDistance

CHANNELS = {
    "friis": Friis,
    "log-distance": LogDistance,
    "rayleigh": Rayleigh,
    "rician": Rician,
    "uniform": Uniform,
}
