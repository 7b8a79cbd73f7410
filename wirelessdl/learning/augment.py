"""Flips and shifted crops, one draw per sample, whole batches at once.

A crop of the image padded by `padding` on all sides is the image shifted by up to `padding`, with the
fill moving in. Draws and their application are apart: draws are keyed by node and round, the application
takes all nodes' samples in one call. Each sample is changed by itself, so per-sample clipping and what
epsilon says of a sample hold as before.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Changes:
    """What happens to each sample: mirrored or not, and by how many pixels it moves down and right."""

    flip: Tensor  # bool [N]
    down: Tensor  # int64 [N]
    right: Tensor  # int64 [N]

    def padded(self, width: int) -> "Changes":
        """The same for a batch that was padded to a width; padding stays as it is."""
        more = width - len(self.flip)
        return Changes(*(torch.nn.functional.pad(part, (0, more)) for part in (self.flip, self.down, self.right)))

    @staticmethod
    def joined(parts: list["Changes"]) -> "Changes":
        """The changes of several draws, one after the other."""
        return Changes(
            torch.cat([part.flip for part in parts]),
            torch.cat([part.down for part in parts]),
            torch.cat([part.right for part in parts]),
        )


def draw_changes(samples: int, generator: torch.Generator, *, flip: bool = True, padding: int = 4) -> Changes:
    """Changes of `samples` samples: a fair coin for the flip, shifts uniform from -padding to padding."""
    device = generator.device
    coins = torch.randint(2, (samples,), generator=generator, device=device)  # drawn also when unused:
    shifts = torch.randint(-padding, padding + 1, (2, samples), generator=generator, device=device)  # others stay
    return Changes((coins == 1) & flip, shifts[0], shifts[1])


def apply_changes(images: Tensor, changes: Changes, fill: float = 0.0) -> Tensor:
    """Images [N, C, H, W], each mirrored and shifted by its own draw; 0 is the mean of normalised images."""
    samples, _, height, width = images.shape
    flip, down, right = (part.to(images.device) for part in (changes.flip, changes.down, changes.right))
    # where each pixel comes from, per sample
    row = torch.arange(height, device=images.device) - down.unsqueeze(1)
    column = torch.arange(width, device=images.device) - right.unsqueeze(1)
    inside = ((row >= 0) & (row < height)).unsqueeze(2) & ((column >= 0) & (column < width)).unsqueeze(1)
    row, column = row.clamp(0, height - 1), column.clamp(0, width - 1)
    column = torch.where(flip.unsqueeze(1), width - 1 - column, column)
    sample = torch.arange(samples, device=images.device).view(-1, 1, 1)
    # advanced indices around a slice put the slice last: [N, H, W, C]
    moved = images[sample, :, row.unsqueeze(2), column.unsqueeze(1)].permute(0, 3, 1, 2)
    return moved.masked_fill(~inside.unsqueeze(1), fill).contiguous()
