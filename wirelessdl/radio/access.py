"""Who sends in which turn.

full   everyone at once: one turn
half   nodes fall into two classes, anew in every frame; one sends while the other listens, then the other
       way round. Links within a class carry nothing in that frame
tdma   one sender at a time at every receiver: turns are colors of the graph in which nodes that hear each
       other, or are heard by a common third, differ
"""

import numpy as np
from scipy.sparse import csr_array

from wirelessdl.arrays import BoolArray, FloatArray, IntArray
from wirelessdl.links import Links
from wirelessdl.mixing import Mixing


def halves(nodes: int, rng: np.random.Generator) -> BoolArray:
    """Which of two classes each node is in: halves, drawn afresh."""
    return np.asarray(rng.permutation(nodes) % 2 == 0)


def coloring(links: Links) -> IntArray:
    """A turn for each node such that no receiver hears two at once, nor anyone while it sends: greedy, by degree."""
    nodes = links.nodes
    joined = csr_array((np.ones(len(links), dtype=np.int64), (links.rx, links.tx)), shape=(nodes, nodes))
    near = joined + joined.T
    # heard by a common receiver: joined' joined
    conflict = (near + joined.T @ joined).tocsr()
    turn = np.full(nodes, -1, dtype=np.int64)
    for node in np.argsort(-np.diff(conflict.indptr), kind="stable").tolist():
        others = conflict.indices[conflict.indptr[node] : conflict.indptr[node + 1]]
        taken = set(turn[others[others != node]].tolist())
        turn[node] = next(n for n in range(nodes) if n not in taken)
    return turn


def metropolis(links: Links, gain_est: FloatArray, amplitude: FloatArray, listening: BoolArray) -> Mixing:
    """Weights 1 / (1 + max(d_i, d_j)) of neighbours that are heard one at a time and hear back.

    Doubly stochastic without any coordination. Each reception is divided by its own estimated gain, so receiver
    noise comes in through every link alone: `scale` is the root of the sum of its squares. Who is listening takes
    the mean of all it hears.
    """
    number, back = links.rx * links.nodes + links.tx, links.tx * links.nodes + links.rx
    audible = (gain_est > 0) & (amplitude[links.tx] > 0)
    use = audible & np.isin(back, number[audible])  # a link that is not answered would tip the balance
    degree = np.bincount(links.rx[use], minlength=links.nodes)
    weight = np.where(use, 1.0 / (1.0 + np.maximum(degree[links.rx], degree[links.tx])), 0.0)
    takes = audible & listening[links.rx]
    share = 1.0 / np.maximum(links.sum_per_receiver(takes.astype(np.float64)), 1.0)
    weight = np.where(listening[links.rx], takes * share[links.rx], weight)
    inverse = np.divide(weight, gain_est * amplitude[links.tx], out=np.zeros_like(weight), where=audible)
    own = 1.0 - links.sum_per_receiver(weight)
    return Mixing(links, weight, own, np.sqrt(links.sum_per_receiver(inverse**2)))
