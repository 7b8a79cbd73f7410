"""Error feedback: a compressed change, and what compression left out is added to the next one.

    p = e - g(s),   x <- Proj(s + gamma mult clip_C(Q(p))),   e <- p - Q(p)

    top-k     Q keeps the share `top_k` of the coordinates of p that are largest in magnitude
    one-bit   Q(p) = sign(p) mean|p|

Source: S. U. Stich, J.-B. Cordonnier and M. Jaggi, "Sparsified SGD with memory", NeurIPS 2018; S. P. Karimireddy et
al., "Error feedback fixes SignSGD", ICML 2019.

Proven by clipping the whole change (kind change): 2C per release, without amplification. What is sent is still the
whole model with its noise, so compression saves no airtime here: it says what compression costs in accuracy.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat

from wirelessdl.scenario.section import Section


class Keys(Section):
    compression: Literal["top-k", "one-bit"] = Field("top-k", description="What error-feedback keeps of a change.")
    top_k: Annotated[FiniteFloat, Field(gt=0, le=1)] = Field(
        0.01, description="Share of coordinates that top-k keeps, under error-feedback."
    )


class Member:
    def __init__(self, learning: Any):
        self.compression: str = learning.compression
        self.share: float = learning.top_k

    def initial(self, received: Any) -> dict[str, Any]:
        return {"error": received * 0.0}

    def change(self, received: Any, state: Any, gradient: Any, round: int) -> tuple[Any, Any]:  # noqa: ARG002
        wanted = state["error"] - gradient(received)
        if self.compression == "one-bit":
            kept = wanted.sign() * wanted.abs().mean(dim=-1, keepdim=True)
        else:
            size = wanted.abs()
            least = size.topk(math.ceil(self.share * wanted.shape[-1]), dim=-1).values[..., -1:]
            kept = wanted * (size >= least)
        return kept, {"error": wanted - kept}
