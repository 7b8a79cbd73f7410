"""Flips and crops: batched as the loop does it, drawn as said."""

import pytest
import torch

from wirelessdl.learning.batch import apply_changes, draw_changes


def loop(images, changes, padding, fill):
    """One image at a time: mirror, pad, cut the window out."""
    out = []
    for image, flip, down, right in zip(images, *changes, strict=True):
        channels, height, width = image.shape
        padded = torch.full((channels, height + 2 * padding, width + 2 * padding), fill, dtype=image.dtype)
        padded[:, padding : padding + height, padding : padding + width] = image.flip(2) if flip else image
        top, left = padding - int(down), padding - int(right)
        out.append(padded[:, top : top + height, left : left + width])
    return torch.stack(out)


@pytest.mark.parametrize(("dtype", "fill"), [(torch.float64, 0.0), (torch.float32, -1.5), (torch.uint8, 7)])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_batched_changes_equal_the_loop(dtype, fill, padding):
    generator = torch.Generator().manual_seed(padding)
    images = torch.randint(0, 200, (64, 3, 6, 5), generator=generator).to(dtype)
    changes = draw_changes(64, generator, padding=padding)
    assert torch.equal(apply_changes(images, changes, fill), loop(images, changes, padding, fill))


def test_draws_are_fair_and_repeat():
    count = 20_000
    changes = draw_changes(count, torch.Generator().manual_seed(3), padding=2)
    assert abs(changes[0].double().mean() - 0.5) < 4.5 * 0.5 / count**0.5
    for shift in changes[1:]:
        seen = torch.bincount(shift + 2, minlength=5).double() / count
        assert (seen - 0.2).abs().max() < 4.5 * (0.16 / count) ** 0.5
    again = draw_changes(count, torch.Generator().manual_seed(3), padding=2)
    assert torch.equal(changes, again)


def test_changes_of_nodes_are_joined_in_order():
    """Each node's own draws, applied in one call, are what each would get alone."""
    images = torch.randn(6, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    parts = [draw_changes(3, torch.Generator().manual_seed(node)) for node in (10, 11)]
    together = apply_changes(images, torch.cat(parts, dim=1))
    apart = torch.cat([apply_changes(images[:3], parts[0]), apply_changes(images[3:], parts[1])])
    assert torch.equal(together, apart)
