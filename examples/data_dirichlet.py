"""How far `form = "client"` is from the Dirichlet law: variance of class shares over that of the law, as a table.

Ten equal classes, 300 samples per node. What a share of 300 samples adds by chance is taken off.

    python examples/data_dirichlet.py
"""

import numpy as np

from wirelessdl.learning.partition import Dirichlet, class_histogram

CLASSES, SIZE = 10, 300
CONCENTRATIONS = (0.1, 1.0, 10.0)


def spread(nodes: int, concentration: float) -> float:
    """Variance of a node's class shares over the law's; many small networks, few large ones."""
    labels = np.repeat(np.arange(CLASSES), nodes * SIZE // CLASSES)
    found = []
    for draw in range(max(2, 2000 // nodes)):
        clients = Dirichlet(concentration, form="client").split(labels, nodes, np.random.default_rng(draw))
        shares = class_histogram(labels, clients, CLASSES) / SIZE
        found.append(np.mean((shares - 1 / CLASSES) ** 2))
    law = (1 / CLASSES) * (1 - 1 / CLASSES) / (CLASSES * concentration + 1)
    chance = (1 / CLASSES - 1 / CLASSES**2 - law) / SIZE
    return float((np.mean(found) - chance) / law)


print(f"| nodes | concentration {' | '.join(f'{one:g}' for one in CONCENTRATIONS)} |")
for nodes in (4, 20, 100, 1000):
    print(f"| {nodes} | {' | '.join(f'{spread(nodes, one):.2f}' for one in CONCENTRATIONS)} |", flush=True)
