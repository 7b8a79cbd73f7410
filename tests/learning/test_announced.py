"""Payloads by the announced size of what is held, against loops over symbols; power and announced sizes are bounded."""

import numpy as np
import pytest
import torch
from slow_hubs import slow_announced

from wirelessdl.learning.announced import AnnouncedStep, announced_rms, send_announced

NODES = 5


def collection(rng, subslots=3, *, hub=2, late=False, faded=False):
    """All others send to one hub; faded: in some sub-slots a sender's estimate is far below the one announced."""
    members = np.array([k for k in range(NODES) if k != hub])
    n = len(members)
    power_w = rng.uniform(0.01, 0.5, NODES)
    opening = rng.uniform(0.5, 2.0, n)
    now = opening * rng.uniform(0.9, 1.1, (subslots, n))
    if faded:
        now[rng.uniform(size=now.shape) < 0.4] *= 0.1
    return AnnouncedStep(
        rx=np.full(n, hub),
        tx=members,
        aim=np.full(n, hub),
        weight=np.full(n, 1.0 / NODES),
        ratio=rng.normal(1.0, 0.2, (subslots, n)) + 1j * rng.normal(0.0, 0.2, (subslots, n)),
        announced=(1.0 / (opening * np.sqrt(power_w[members])))[None, :],
        needed=1.0 / (now * np.sqrt(power_w[members])),
        own=np.where(np.arange(NODES) == hub, 1.0 / NODES, 1.0),
        noise_w=rng.uniform(0.001, 0.01, NODES),
        power_w=power_w,
        late=rng.uniform(-0.8, 0.8, n) if late else None,
        reaches=float(NODES),
    )


def broadcast(rng, subslots=3, *, late=False):
    """One sends to three others, which divide; each sub-slot has a scale of its own."""
    hears = np.array([0, 3, 4])
    power_w, between = rng.uniform(0.01, 0.5, NODES), rng.uniform(0.3, 2.0, (subslots, 3))
    return AnnouncedStep(
        rx=hears,
        tx=np.full(3, 2),
        aim=hears,
        weight=np.ones(3),
        ratio=rng.normal(1.0, 0.1, (subslots, 3)) + 1j * rng.normal(0.0, 0.1, (subslots, 3)),
        announced=1.0 / (between * np.sqrt(power_w[2])),
        needed=None,
        own=np.where(np.isin(np.arange(NODES), hears), 0.0, 1.0),
        noise_w=rng.uniform(0.001, 0.01, NODES),
        power_w=power_w,
        late=rng.uniform(-0.8, 0.8, 3) if late else None,
    )


def overheard(rng, subslots=2):
    """Two receivers at once: 0 and 1 are aligned to 4, and 2 to 3, and each receiver hears the others' senders."""
    links = [(3, 2, 3), (3, 0, 4), (3, 1, 4), (4, 0, 4), (4, 1, 4), (4, 2, 3)]  # rx, tx, aim
    rx, tx, aim = (np.array(part) for part in zip(*links))
    weight_of, power_w = {0: 0.2, 1: 0.3, 2: 0.4}, rng.uniform(0.01, 0.5, NODES)
    gain_of = {0: 0.8, 1: 1.2, 2: 0.5}  # by the estimate of the link to whom it is aligned
    level = np.array([1.0 / (gain_of[j] * np.sqrt(power_w[j])) for j in tx])
    change = {j: rng.uniform(0.5, 1.5, subslots) for j in range(3)}
    return AnnouncedStep(
        rx=rx,
        tx=tx,
        aim=aim,
        weight=np.array([weight_of[j] for j in tx]),
        ratio=rng.normal(0.5, 0.3, (subslots, len(tx))) + 1j * rng.normal(0.0, 0.3, (subslots, len(tx))),
        announced=level[None, :],
        needed=np.stack([level[n] * change[int(j)] for n, j in enumerate(tx)], axis=1),
        own=np.full(NODES, 0.5),
        noise_w=rng.uniform(0.001, 0.01, NODES),
        power_w=power_w,
    )


MAKERS = {
    "collected": collection,
    "collected, late": lambda rng: collection(rng, late=True),
    "collected, faded sub-slots": lambda rng: collection(rng, subslots=4, faded=True),
    "one sub-slot": lambda rng: collection(rng, subslots=1, late=True, faded=True),
    "sent back": broadcast,
    "sent back, late": lambda rng: broadcast(rng, late=True),
    "overheard": overheard,
}


@pytest.mark.parametrize("size", [1, 7, 24, 31])
@pytest.mark.parametrize("name", MAKERS)
def test_payloads_are_those_of_the_loop(name, size):
    rng = np.random.default_rng(size)
    step = MAKERS[name](rng)
    held = rng.normal(size=(NODES, size)) * np.array([1.0, 30.0, 0.1, 2.0, 5.0])[:, None]
    noise = rng.normal(size=(len(np.unique(step.rx)), size))
    after, power, variance = slow_announced(step, held.tolist(), noise.tolist())
    found = torch.from_numpy(held.copy())
    power_found, variance_found = send_announced(step, found, torch.from_numpy(noise))
    # sums of few float64 products, in another order
    np.testing.assert_allclose(found.numpy(), after, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(power_found.numpy(), power, rtol=1e-12)
    assert float(variance_found) == pytest.approx(variance, rel=1e-12)
    assert (found.numpy() != held).any(axis=1).tolist() == np.isin(np.arange(NODES), step.rx).tolist()


def test_float32_differs_by_rounding_only():
    rng = np.random.default_rng(1)
    step, held, noise = collection(rng, late=True), rng.normal(size=(NODES, 40)), rng.normal(size=(1, 40))
    wide, narrow = torch.from_numpy(held.copy()), torch.from_numpy(held).float()
    send_announced(step, wide, torch.from_numpy(noise))
    send_announced(step, narrow, torch.from_numpy(noise).float())
    torch.testing.assert_close(narrow.double(), wide, rtol=1e-5, atol=1e-5)


def test_nobody_radiates_more_than_its_power_in_any_payload():
    """300 payloads: unequal powers, estimates that fade by 20 dB within the payload, holdings 50 dB apart."""
    rng = np.random.default_rng(5)
    most = 0.0
    for _ in range(300):
        step = collection(rng, subslots=int(rng.integers(1, 9)), faded=True) if rng.uniform() < 0.7 else broadcast(rng)
        held = torch.from_numpy(rng.normal(size=(NODES, 33)) * 10.0 ** rng.uniform(-2.5, 2.5, (NODES, 1)))
        power, _ = send_announced(step, held, torch.zeros(len(np.unique(step.rx)), 33, dtype=torch.float64))
        used = power.numpy() / step.power_w
        most = max(most, used.max())
        assert (used[np.setdiff1d(np.arange(NODES), step.tx)] == 0).all()
    assert 0.95 < most <= 1.0  # and the strongest sender uses what it has


def test_an_announced_rms_is_never_below_the_rms_and_at_most_a_sixteenth_of_an_octave_above():
    rng = np.random.default_rng(2)
    grid = 2.0 ** (np.arange(-200, 200) / 16)
    wanted = np.concatenate([10.0 ** rng.uniform(-12, 6, 4000), grid, np.nextafter(grid, np.inf), grid * (1 + 1e-12)])
    held = torch.from_numpy(wanted[:, None] * np.ones(3))
    rms = torch.linalg.vector_norm(held, dim=1) / 3**0.5
    found = announced_rms(held)
    assert (found >= rms).all()
    assert (found <= rms * 2.0 ** (1 / 16) * (1 + 1e-12)).all()
    steps = 16 * torch.log2(found)
    torch.testing.assert_close(steps, steps.round(), rtol=0, atol=1e-9)  # 8 bits cover 96 dB


def test_a_model_of_zeros_announces_nothing_and_radiates_nothing():
    step = collection(np.random.default_rng(3))
    held = torch.zeros(NODES, 12, dtype=torch.float64)
    power, variance = send_announced(step, held, torch.ones(1, 12, dtype=torch.float64))
    assert not held.any()
    assert not power.any()
    assert float(variance) == 0
