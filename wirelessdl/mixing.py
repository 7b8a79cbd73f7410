"""The averaging that over-the-air superposition performs.

Receiver i hears y_i = sum_j |h_ij| sqrt(alpha_j P_j) w_j and adds its own term:

    s_i = air_i y_i / (c_i d_i) + (1 - air_i) w_i,      c_i = mean_j |h_ij| sqrt(alpha_j P_j)

so A[i, j] = air_i |h_ij| sqrt(alpha_j P_j) / (c_i d_i), A[i, i] = 1 - air_i, rows summing to one.

    paper      air_i = d_i / (d_i + 1)                                  (eq. 13)
    receiver   air_i = kappa p_i, p the left Perron vector of the air's own weights P:
               A = I - kappa diag(p) (I - P) is doubly stochastic, so the data of all nodes counts alike
               and theta is K. kappa = min_i (d_i / (d_i + 1)) / p_i keeps A[i, i] >= 1 / (d_i + 1).

    |h_ij|   amplitude gain of the link j -> i; alpha_j P_j: power of sender j for its model, W
    w_j      what node j sends, its model plus noise; s_i: what node i holds after the slot
    air_i    weight of what receiver i hears, 0 to 1; d_i: number of senders it hears

By transmit power senders back off until the columns of A sum to one, as its rows do. With
A[i, i] = 1/(d_i + 1) the rest of column j must sum to d_j/(d_j + 1), like the rest of row j:

    M_ij = r_i g_ij w_j,   row sums = column sums = d/(d + 1),   w_j = sqrt(alpha_j P_j)

    g_ij  amplitude gain |h| of the link j -> i; d_j: degree of node j; r_i: receiver scaling; P_j: budget, W

(Sinkhorn scaling.) It exists if and only if the marginals can be met with a positive weight on every link, which a
star, a path of odd length or a node with two leaves cannot: `support_margin` tests that by a linear program before
anything is scaled, up to 2,000 nodes. Receivers are unchanged; the cost is received power.

Partial balancing goes part of the way: amplitude_j = sqrt(P_j) (w_j/sqrt(P_j))^e, up to a common factor, e from 0
(full power) to 1 (balanced by power). Receivers balance what is left (`balanced_air`). Weak nodes are then
heard beside strong ones, so the spectral gap is wider than by receivers alone, for less received power than at e = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from wirelessdl.arrays import BoolArray, FloatArray
from wirelessdl.links import Geometry, Links

_INAUDIBLE = 1e-12  # gain, relative to the loudest link of a receiver, below which a link is lost
MIN_SPARSE_NODES = 200  # from which sparse solvers and products win
MAX_SPARSE_DENSITY = 1 / 16  # share of all possible links, up to which sparse products win
MAX_EIGENVALUE_NODES = 500  # up to which all eigenvalues are computed
MAX_TRANSIENT_ROUNDS = 200  # of products of A
MAX_TRANSIENT_NODES = 300  # up to which products of A are followed; each costs K^3
STATIONARY_ERROR = 1e-12  # relative, of pi A - pi: a balanced A then has columns that sum to one within as much
MAX_WALK_STEPS = 400  # of a walk that mixes: on a graph on which it does not, a solver takes over
SEARCH_VECTORS = 40  # of the search for the second eigenvalue
MAX_SEARCH_PRODUCTS = 3e8  # of it: weights of A times products with A


def is_sparse(nodes: int, links: int) -> bool:
    """Whether weights of so many links multiply faster, and take less memory, in sparse form."""
    return nodes >= MIN_SPARSE_NODES and links <= nodes**2 * MAX_SPARSE_DENSITY


@dataclass(frozen=True, eq=False)
class Mixing:
    """Weights of one resource block. link: [links] A[rx, tx]; own: [K] A[i, i]; scale: [K] air_i / (c_i d_i)."""

    links: Links
    link: FloatArray
    own: FloatArray
    scale: FloatArray

    @cached_property
    def dense(self) -> FloatArray:
        """A[rx, tx]."""
        matrix = self.links.matrix(self.link)
        matrix[np.diag_indices(self.links.nodes)] = self.own
        return matrix

    @cached_property
    def compact(self) -> "FloatArray | scipy.sparse.csr_array":
        """A[rx, tx] in the form that multiplies fastest: sparse in large networks with few links."""
        return sparse(self) if is_sparse(self.links.nodes, len(self.links)) else self.dense

    @property
    def row_sum(self) -> FloatArray:
        """Sum of each receiver's weights, `[K]`; 1 under perfect CSI."""
        return self.own + self.links.sum_per_receiver(self.link)


def mix(links: Links, gain: FloatArray, amplitude: FloatArray, *, air: FloatArray) -> Mixing:
    """Weights of one slot as gains make them.

    gain: [links] |h|. amplitude: [K] sqrt(alpha_j P_j) of each sender. air: [K] weight of what each receiver hears. A
    node that hears nothing keeps its own term.
    """
    heard = links.sum_per_receiver(gain * amplitude[links.tx])  # c_i d_i
    share = np.where(heard > 0, air, 0.0)
    scale = np.divide(share, heard, out=np.zeros_like(heard), where=heard > 0)
    return Mixing(links, scale[links.rx] * gain * amplitude[links.tx], 1.0 - share, scale)


def uniform_air(links: Links) -> FloatArray:
    """The paper's weight of what each receiver hears, `[K]`: d / (d + 1)."""
    return links.degree / (links.degree + 1.0)


def balanced_air(links: Links, gain: FloatArray, amplitude: FloatArray) -> FloatArray:
    """Weights of what each receiver hears that make A doubly stochastic, `[K]`.

    gain: [links] |h|; amplitude: [K] sqrt(alpha_j P_j). Where links without gain leave the graph in parts, only parts
    that hear no node outside can be balanced; nodes of other parts keep their own term in this slot.
    """
    loudest = np.zeros(links.nodes)
    np.maximum.at(loudest, links.rx, gain)
    counts = gain > _INAUDIBLE * loudest[links.rx]  # weaker ones are lost in rounding beside the loudest
    audible = links if counts.all() else links.where(counts)
    label = audible.component
    if label.max() == 0:
        return _balanced_group(audible, gain[counts], amplitude)
    air = np.zeros(links.nodes)
    listens_out = np.unique(label[audible.rx[label[audible.rx] != label[audible.tx]]])
    heard = gain[counts]
    for group in np.setdiff1d(np.unique(label), listens_out):
        member = np.flatnonzero(label == group)
        if len(member) > 1:
            inside = label[audible.rx] == group
            renumber = np.cumsum(label == group) - 1
            place = Geometry.at_rest(audible.geometry.position_m[member])
            part = Links(renumber[audible.rx[inside]], renumber[audible.tx[inside]], place)
            air[member] = _balanced_group(part, heard[inside], amplitude[member])
    return air


def mixing_matrix(gain: FloatArray, alpha: FloatArray, power_w: FloatArray | float) -> FloatArray:
    """Row-stochastic weights of over-the-air averaging (below paper eq. 13) from dense gains: A[rx, tx].

    gain: [rx, tx] |h|. alpha: [K] share of power for the model. power_w: one number or [K], W.
    """
    return _of_dense(gain, alpha, power_w, lambda links, *_: uniform_air(links))


def balanced_mixing(gain: FloatArray, alpha: FloatArray, power_w: FloatArray | float) -> FloatArray:
    """Doubly stochastic weights by receiver balancing: A[rx, tx]; arguments as in `mixing_matrix`."""
    return _of_dense(gain, alpha, power_w, balanced_air)


def _of_dense(
    gain: FloatArray, alpha: FloatArray, power_w: FloatArray | float, air: Callable[..., FloatArray]
) -> FloatArray:
    links = Links.from_gain(gain)
    vector, amplitude = links.vector(gain), np.sqrt(alpha * np.broadcast_to(power_w, len(gain)))
    return mix(links, vector, amplitude, air=air(links, vector, amplitude)).dense


def _balanced_group(links: Links, gain: FloatArray, amplitude: FloatArray) -> FloatArray:
    """kappa p of a strongly connected group."""
    air = mix(links, gain, amplitude, air=np.ones(links.nodes))
    # where |h_ij| = |h_ji| the walk is reversible and this is its solution; elsewhere the search begins near it
    start = amplitude * links.sum_per_receiver(gain * amplitude[links.tx]) if links.nodes > MIN_SPARSE_NODES else None
    weight = perron_vector(air, start)
    return np.asarray(np.min(uniform_air(links) / weight) * weight)


def perron_vector(
    matrix: "FloatArray | Mixing | scipy.sparse.csr_array", start: FloatArray | None = None
) -> FloatArray:
    """Left Perron vector pi of a row-stochastic matrix [rx, tx], `[K]`: pi A = pi, sum 1.

    One linear solve; from 200 nodes on a walk first, which is linear in the links: pi <- (pi + pi A) / 2 until
    |pi A - pi| <= 1e-12 pi. It is quick on graphs that mix fast, where elimination fills in and takes K^3; on others
    (a line, a plane) elimination is the quick one. start: [K] where the walk begins, by default all nodes alike; it
    never depends on frames before, so that a resumed run has the same bits.
    """
    nodes = matrix.links.nodes if isinstance(matrix, Mixing) else matrix.shape[0]
    if nodes == 1:
        return np.ones(1)
    # (A' - I) pi = 0 with pi_0 = 1 drops the redundant row; the rest is nonsingular when irreducible
    if nodes <= MIN_SPARSE_NODES and not scipy.sparse.issparse(matrix):
        dense = matrix.dense if isinstance(matrix, Mixing) else matrix
        rest = np.linalg.solve(np.eye(nodes - 1) - dense.T[1:, 1:], dense.T[1:, 0])
    else:
        weights = matrix if scipy.sparse.issparse(matrix) else sparse(matrix)
        walked = _walked(weights, np.ones(nodes) if start is None else start)
        if walked is not None:
            return walked
        system = (scipy.sparse.eye_array(nodes, format="csr") - weights).T.tocsc()
        rest = scipy.sparse.linalg.splu(system[1:, 1:]).solve(-system[1:, [0]].toarray()[:, 0])
    pi = np.concatenate([[1.0], rest])
    return np.asarray(pi / pi.sum())


def _walked(weights: "scipy.sparse.csr_array", start: FloatArray) -> FloatArray | None:
    """pi by a lazy walk, `[K]`; None where it does not settle in time."""
    if not (start > 0).all():
        return None
    onward = weights.T.tocsr()
    pi, before = start / start.sum(), np.nan
    for step in range(MAX_WALK_STEPS):
        moved = onward @ pi
        off = float(np.max(np.abs(moved - pi) / pi))
        if off <= STATIONARY_ERROR:
            return np.asarray(pi / pi.sum())
        if step % 20 == 0:
            if step and np.log(off / before) * (MAX_WALK_STEPS - step) / 20 > np.log(STATIONARY_ERROR / off):
                return None  # at this pace it is not there in time
            before = off
        pi = 0.5 * (pi + moved)
    return None


def spectral_gap(matrix: FloatArray | Mixing) -> float:
    """1 - |second largest eigenvalue| of A: the rate at which models reach consensus; 0: never.

    NaN where 3e8 multiplications by weights of a large A do not tell: its gap is too narrow to be found by them.
    """
    nodes = matrix.links.nodes if isinstance(matrix, Mixing) else len(matrix)
    values: NDArray[Any]
    if isinstance(matrix, Mixing) and nodes > 1 and not len(matrix.links):
        return 0.0
    if nodes <= MIN_SPARSE_NODES:
        values = np.linalg.eigvals(matrix.dense if isinstance(matrix, Mixing) else matrix)
    else:
        weights = sparse(matrix)
        restarts = int(np.clip(MAX_SEARCH_PRODUCTS / (SEARCH_VECTORS * weights.nnz), 8, 10 * nodes))
        # a fixed start, so that the figure is the same every time
        given: dict[str, Any] = {"k": 2, "v0": np.arange(1.0, nodes + 1), "return_eigenvectors": False}
        try:
            values = scipy.sparse.linalg.eigs(weights, ncv=SEARCH_VECTORS, maxiter=restarts, **given)
        except scipy.sparse.linalg.ArpackNoConvergence:
            return float("nan")
    modulus = np.sort(np.abs(values))
    return float(np.clip(1.0 - modulus[-2], 0.0, 1.0)) if len(modulus) > 1 else 1.0


def expected_spectrum(mixing: Mixing) -> NDArray[Any]:
    """Eigenvalues of A; of more than 500 nodes, numbers that cover those of a symmetric A, 1 among them.

    They lie between the lowest that diagonals of A allow (Gershgorin) and the second largest, which a walk finds from
    below. A is symmetric where gains are the same in both directions and receivers balance; elsewhere it is close.
    """
    nodes = mixing.links.nodes
    if nodes <= MAX_EIGENVALUE_NODES:
        return np.linalg.eigvals(mixing.dense)
    weights, vector = sparse(mixing), np.sin(np.arange(nodes) + 1.0)
    for _ in range(MAX_WALK_STEPS):
        vector = vector - vector.mean()
        vector = vector / np.linalg.norm(vector)
        vector = 0.5 * (vector + weights @ vector)
    vector = vector - vector.mean()
    second = float(vector @ (weights @ vector) / (vector @ vector))
    low = max(-1.0, 2.0 * float(mixing.own.min()) - 1.0)
    return np.concatenate([[1.0], np.linspace(low, min(max(second, low), 1.0 - 1e-6), 500)])


def metropolis(
    links: Links,
    gain_est: FloatArray,
    amplitude: FloatArray,
    listening: BoolArray,
    least_gain: FloatArray | float = 0.0,
) -> Mixing:
    """Weights 1 / (1 + max(d_i, d_j)) of neighbours that are heard one at a time and hear back.

    Each reception is divided by its own estimated gain, so receiver noise comes in through every link alone: `scale` is
    the root of the sum of its squares. Links below least_gain, `[K]` |h| by sender, are left out (truncation), and so
    is the other direction of each, so that A stays doubly stochastic: degrees count what is left, and the own weight
    takes the rest. Who is listening takes the mean of all it hears.
    """
    least = np.broadcast_to(least_gain, (links.nodes,))
    audible = (gain_est > 0) & (gain_est >= least[links.tx]) & (amplitude[links.tx] > 0)
    use = _answered(links, audible)
    weight, own = _metropolis(links, use, use, audible, listening)
    inverse = np.divide(weight, gain_est * amplitude[links.tx], out=np.zeros_like(weight), where=audible)
    return Mixing(links, weight, own, np.sqrt(links.sum_per_receiver(inverse**2)))


def metropolis_delivered(links: Links, arrived: BoolArray, listening: BoolArray) -> Mixing:
    """Metropolis weights of messages that arrived whole; degrees are those of the graph, which both ends know.

    arrived: [links]. A link that lost a message in either direction carries nothing in this frame: the receiver knows
    what it lacks, the sender lacks an acknowledgement, and both keep the weight for themselves. So rows sum to 1, and
    columns do among nodes that send. Who is listening takes the mean of all it has. Receivers add no noise: `scale` is
    1 where anything arrived.
    """
    mutual = _answered(links, np.ones(len(links), dtype=bool))
    weight, own = _metropolis(links, mutual, _answered(links, arrived), arrived, listening)
    heard = links.sum_per_receiver((weight > 0).astype(np.float64)) > 0
    return Mixing(links, weight, own, heard.astype(np.float64))


def _answered(links: Links, there: BoolArray) -> BoolArray:
    """Which links are there in both directions, `[links]`: one that is not answered would tip the balance."""
    return there & np.isin(links.reverse_number, links.number[there])


def _metropolis(
    links: Links, counted: BoolArray, use: BoolArray, audible: BoolArray, listening: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Weights `[links]` and what is left for a node's own model, `[K]`.

    counted: [links] that make up degrees; use: [links] that carry models. A listener takes the mean of all audible
    ones, and of itself nothing where it hears anybody, not even a last bit.
    """
    degree = np.bincount(links.rx[counted], minlength=links.nodes)
    weight = np.where(use, 1.0 / (1.0 + np.maximum(degree[links.rx], degree[links.tx])), 0.0)
    takes = audible & listening[links.rx]
    share = 1.0 / np.maximum(links.sum_per_receiver(takes.astype(np.float64)), 1.0)
    weight = np.where(listening[links.rx], takes * share[links.rx], weight)
    total = links.sum_per_receiver(weight)
    return weight, np.where(listening & (total > 0), 0.0, 1.0 - total)


def peak_multiplier(matrix: FloatArray | Mixing) -> float:
    """theta: the largest 1 / z_ii of Z_t = A Z_{t-1}, Z_0 = I, over t = 1 .. 200 and in the limit."""
    settled = float(np.max(1.0 / perron_vector(matrix)))
    nodes = matrix.links.nodes if isinstance(matrix, Mixing) else len(matrix)
    if nodes > MAX_TRANSIENT_NODES:  # the multiplier is capped at theta anyway
        return settled
    dense = matrix.dense if isinstance(matrix, Mixing) else matrix
    peak, power = settled, dense
    for _ in range(MAX_TRANSIENT_ROUNDS):
        diagonal = np.diagonal(power)
        peak = max(peak, float(np.max(1.0 / diagonal)))
        if np.ptp(power, axis=0).max() < 1e-12:
            break
        power = power @ dense
    return peak


def sparse(matrix: FloatArray | Mixing) -> "scipy.sparse.csr_array":
    """A[rx, tx] with its links and diagonal only."""
    if not isinstance(matrix, Mixing):
        return scipy.sparse.csr_array(matrix)
    links, diagonal = matrix.links, np.arange(matrix.links.nodes)
    values = np.concatenate([matrix.link, matrix.own])
    rows, columns = np.concatenate([links.rx, diagonal]), np.concatenate([links.tx, diagonal])
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(links.nodes, links.nodes))


_MAX_SCALINGS = 20_000
_MAX_TESTED_NODES = 2000  # nodes up to which support is tested by a linear program
_BALANCED_WITHIN = 1e-13


def support_margin(links: Links) -> float:
    """Largest t with x_ij >= t on every link while the marginals are met; 0 or less: no scaling exists."""
    count, nodes = len(links), links.nodes
    marginal = uniform_air(links)
    one, row = np.ones(count), np.arange(count)
    zero = scipy.sparse.csr_array((nodes, 1))
    equal = scipy.sparse.vstack(
        [
            scipy.sparse.hstack([scipy.sparse.csr_array((one, (links.rx, row)), shape=(nodes, count)), zero]),
            scipy.sparse.hstack([scipy.sparse.csr_array((one, (links.tx, row)), shape=(nodes, count)), zero]),
        ]
    )
    above = scipy.sparse.hstack(
        [-scipy.sparse.csr_array((one, (row, row)), shape=(count, count)), scipy.sparse.csr_array(np.ones((count, 1)))]
    )
    result = scipy.optimize.linprog(  # type: ignore[call-overload]  # the stubs know no sparse constraints
        np.concatenate([np.zeros(count), [-1.0]]),
        A_ub=above,
        b_ub=np.zeros(count),
        A_eq=equal,
        b_eq=np.concatenate([marginal, marginal]),
        bounds=[(None, None)] * count + [(None, 1.0)],
        method="highs",
    )
    return float(result.x[-1]) if result.x is not None else -np.inf


def balancing_amplitudes(links: Links, gain: FloatArray) -> tuple[FloatArray | None, str]:
    """w, `[K]`, up to a common factor, and an empty text; or None and the reason. gain: [links] |h|."""
    if not gain.all():
        return None, "a link has no gain"
    if not links.degree.all() or not np.bincount(links.tx, minlength=links.nodes).all():
        return None, "a node hears nobody or is heard by nobody"
    # the program takes longer than the scaling in large networks; without support that does not settle, which is said
    if links.nodes <= _MAX_TESTED_NODES and support_margin(links) <= 1e-9:
        return None, "no transmit powers can balance this graph (its marginals need an unused link)"
    marginal = uniform_air(links)
    weight, receive = np.ones(links.nodes), np.ones(links.nodes)
    for _ in range(_MAX_SCALINGS):
        receive = marginal / links.sum_per_receiver(gain * weight[links.tx])
        column = np.bincount(links.tx, weights=gain * receive[links.rx], minlength=links.nodes)
        if np.max(np.abs(column * weight - marginal)) < _BALANCED_WITHIN:
            return weight / weight.max(), ""
        weight = marginal / column
        weight /= weight.max()
    return None, f"scaling did not settle in {_MAX_SCALINGS} steps (gains too uneven)"


def part_of_the_way(weight: FloatArray, most: FloatArray, exponent: float) -> FloatArray:
    """Amplitudes of an exponent over the largest ones, `[K]`. weight: [K] those that balance; most: [K] the largest."""
    share = weight / most
    return np.asarray((share / share.max()) ** exponent)
