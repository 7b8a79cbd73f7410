"""Partitions: exact covers, minimum sizes, stable by seed, blind to file order, of the right distribution."""

import json

import numpy as np
import pytest
from conftest import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelessdl.errors import ScenarioError
from wirelessdl.learning.data import Dataset
from wirelessdl.learning.partition import (
    PARTITIONS,
    Dirichlet,
    FromFile,
    Iid,
    Quantity,
    Shards,
    _raise_to_minimum,
    class_histogram,
    split_data,
)
from wirelessdl.run.build import build

ANY = st.one_of(
    st.just(Iid()),
    st.builds(
        Dirichlet,
        st.floats(1e-3, 1e3),
        min_samples=st.integers(1, 5),
        form=st.sampled_from(["class", "client"]),
    ),
    st.builds(Shards, st.integers(1, 4)),
    st.builds(
        Quantity,
        st.sampled_from(["dirichlet", "power-law"]),
        st.floats(1e-3, 1e3),
        st.floats(0, 5),
        st.integers(1, 5),
    ),
)


def rng(seed=0):
    return np.random.default_rng(seed)


def dataset(x, y, **more):
    return Dataset("made", x, y, x[:1], y[:1], **{"classes": int(y.max()) + 1, **more})


@settings(max_examples=200, deadline=None)
@given(ANY, st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12), st.data())
def test_partitions_cover_every_sample_once_and_leave_no_node_short(partition, seed, nodes, classes, data):
    counts = data.draw(st.lists(st.integers(1, 40), min_size=classes, max_size=classes))
    labels = rng(seed).permutation(np.repeat(np.arange(classes), counts))
    least = getattr(partition, "min_samples", getattr(partition, "per_node", 1))
    if nodes * least > len(labels):
        with pytest.raises(ValueError, match=r"(min_samples|per_node) is \d+; "):
            partition.split(labels, nodes, rng(seed))
        return
    client_indices = partition.split(labels, nodes, rng(seed))
    assert len(client_indices) == nodes
    assert sorted(np.concatenate(client_indices).tolist()) == list(range(len(labels)))
    assert min(map(len, client_indices)) >= least
    assert all((np.diff(client) > 0).all() for client in client_indices)
    again = partition.split(labels, nodes, rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(client_indices, again, strict=True))


@settings(max_examples=60, deadline=None)
@given(ANY, st.integers(0, 10**6))
def test_file_order_does_not_matter(partition, seed):
    """The same samples, shuffled: every node gets the same ones."""
    x, y = rng(1).standard_normal((240, 3)), np.repeat(np.arange(4), 60)
    order = rng(seed).permutation(240)
    client_indices = split_data(partition, dataset(x, y), 6, rng(5))
    moved = split_data(partition, dataset(x[order], y[order]), 6, rng(5))
    for before, after in zip(client_indices, moved, strict=True):
        assert set(before) == set(order[after])


def test_a_users_partition_sees_samples_in_their_own_order():
    class Halves:
        def split(self, labels, nodes, rng):
            return np.array_split(np.arange(len(labels)), nodes)

    x, y = rng().standard_normal((10, 2)), np.array([1, 0] * 5)
    assert [client.tolist() for client in split_data(Halves(), dataset(x, y), 2, rng())] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]


def test_class_form_equals_the_loop():
    """Each class's samples are walked in their drawn order; one goes to the node whose stretch it lies in."""
    labels, nodes, concentration = rng(9).integers(0, 4, 500), 6, 0.7
    fast = Dirichlet(concentration).split(labels, nodes, rng(11))
    draws, slow = rng(11), [[] for _ in range(nodes)]
    for label in range(4):
        members = draws.permutation([sample for sample in range(500) if labels[sample] == label])
        shares = draws.dirichlet([concentration] * nodes)
        ends = [round(float(sum(shares[: node + 1])) * len(members)) for node in range(nodes - 1)] + [len(members)]
        for place, sample in enumerate(members):
            slow[next(node for node in range(nodes) if place < ends[node])].append(sample)
    assert [client.tolist() for client in fast] == [sorted(client) for client in slow]


@pytest.mark.parametrize("concentration", [0.1, 1.0, 10.0])
def test_class_shares_follow_the_dirichlet_law(concentration):
    """Share of a class at a node: mean 1/K, variance (1/K)(1 - 1/K)/(K a + 1)."""
    nodes, classes = 5, 4000
    labels = np.repeat(np.arange(classes), 200)
    client_indices = Dirichlet(concentration).split(labels, nodes, rng(1))
    shares = class_histogram(labels, client_indices, classes) / 200
    variance = (1 / nodes) * (1 - 1 / nodes) / (nodes * concentration + 1)
    se = np.sqrt(variance / classes)
    assert np.abs(shares.mean(axis=1) - 1 / nodes).max() < 4.5 * se
    spread = (shares - 1 / nodes) ** 2
    # rounding to whole samples adds up to (1/200)^2/6
    assert abs(spread.mean() - variance) < 4.5 * spread.std() / np.sqrt(classes * (nodes - 1)) + 1 / 200**2 / 6


@pytest.mark.parametrize("concentration", [1.0, 10.0])
def test_client_proportions_follow_the_dirichlet_law_among_many_nodes(concentration):
    """Node i's share of a class: mean 1/C exactly (all is dealt), variance that of Dirichlet plus a multinomial.

    Classes are finite, so a few wishes go unmet: at K = 1000 that takes less than 4% off the variance.
    """
    nodes, classes, size = 1000, 10, 300
    labels = np.repeat(np.arange(classes), nodes * size // classes)
    client_indices = Dirichlet(concentration, form="client").split(labels, nodes, rng(2))
    assert {len(client) for client in client_indices} == {size}
    shares = class_histogram(labels, client_indices, classes) / size
    law = (1 / classes) * (1 - 1 / classes) / (classes * concentration + 1)
    expected = law + (1 / classes - 1 / classes**2 - law) / size
    spread = (shares - 1 / classes) ** 2
    se = spread.std() / np.sqrt(nodes * (classes - 1))
    assert expected * 0.96 - 4 * se < spread.mean() < expected + 4 * se


def test_extreme_concentrations_end_quickly_with_nobody_empty():
    labels = np.repeat(np.arange(5), 60)
    for concentration in (1e-300, 1e-3, 1e300):
        for form in ("class", "client"):
            client_indices = Dirichlet(concentration, form=form).split(labels, 30, rng())
            assert min(map(len, client_indices)) >= 1
            assert sum(map(len, client_indices)) == 300


def test_raising_small_nodes_to_the_minimum_takes_from_the_largest_only():
    owner = np.array([0] * 50 + [1] * 30 + [2] * 5 + [3] * 2)
    sizes = np.bincount(_raise_to_minimum(owner, 5, 8, rng()), minlength=5)
    assert sizes.tolist() == [33, 30, 8, 8, 8]  # 17 were lacking, all of them 0's


def test_shards_hold_few_classes():
    labels = np.repeat(np.arange(10), 600)
    counts = class_histogram(labels, Shards(2).split(labels, 100, rng()), 10)
    assert (counts.sum(axis=1) == 60).all()
    assert (counts > 0).sum(axis=1).max() <= 2  # shards of 30 lie within classes of 600


@pytest.mark.parametrize(("kind", "partition"), [("dirichlet", Dirichlet()), ("shards", Shards())])
def test_regressions_have_no_classes_to_split_by(kind, partition):
    with pytest.raises(ValueError, match=f'kind is "{kind}"; it splits by class.*use iid, quantity or file'):
        partition.split(np.array([0.5, 1.5, 2.5]), 2, rng())


OWNERS = [0, 1, 1, -1, 2, 0]


def write(path, values, column="node"):
    if path.suffix == ".npz":
        np.savez(path, **{column: np.array(values)})
    elif path.suffix == ".json":
        path.write_text(json.dumps({column: values}))
    else:
        path.write_text(f"sample,{column}\n" + "".join(f"{n},{v}\n" for n, v in enumerate(values)))


@pytest.mark.parametrize("name", ["who.npz", "who.json", "who.csv"])
def test_a_file_says_who_gets_what(name, tmp_path):
    write(tmp_path / name, OWNERS)
    client_indices = FromFile(name, folders=[tmp_path]).split(np.zeros(6, dtype=np.int64), 3, rng())
    assert [client.tolist() for client in client_indices] == [[0, 5], [1, 2], [4]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("who.json", "[0, 1]", "names 2 nodes for 6 training samples"),
        ("who.json", "[0, 1, 2, 3, 0, 0]", "gives sample 3 to node 3: nodes are 0 to 2, or -1 for nobody"),
        ("who.json", "[0.5, 1]", "must hold one whole number for each sample"),
        ("who.json", "[", "cannot be read: Expecting value"),
        ("who.json", '{"nodes": [1]}', 'column is "node"; who.json has none of that name; did you mean nodes?'),
        ("who.csv", "noda\n1\n", 'column is "node"; who.csv has none of that name; did you mean noda?'),
        ("who.npz", "junk", "cannot be read"),
        ("who.txt", "0", "must be an .npz, .json or .csv file"),
    ],
)
def test_a_bad_partition_file_is_told(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError) as told:
        FromFile(name, folders=[tmp_path]).split(np.zeros(6), 3, rng())
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_histogram_equals_the_loop_and_check_prints_its_extremes(wirelessdl_command):
    labels, client_indices = np.array([0, 2, 2, 1, 0]), [np.array([0, 1, 2]), np.array([3, 4])]
    counts = [[sum(labels[sample] == c for sample in client) for c in range(3)] for client in client_indices]
    assert class_histogram(labels, client_indices, 3).tolist() == counts == [[1, 0, 2], [1, 1, 0]]
    told = wirelessdl_command("check", "quickstart", "--set", "learning.partition={kind='shards'}", "--json")
    told = json.loads(told.out)["labels"]
    assert told == "4 of 10 classes per node; its largest class is 30% to 40% of what it has"


def test_every_kind_builds_from_a_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "who.npz", (np.arange(12_000) % 4).tolist())
    for kind in PARTITIONS:
        part = {"kind": kind, **({"path": "who.npz"} if kind == "file" else {})}
        world = build(tiny(learning={"partition": part}), device="cpu")
        assert sum(map(len, world.client_indices)) == 12_000
    with pytest.raises(ScenarioError, match=r"learning\.partition\.path is \"no\.npz\"; no such file or folder in"):
        build(tiny(learning={"partition": {"kind": "file", "path": "no.npz"}}), device="cpu")
