"""Which accountant is valid for which releases, and for what noise multiplier.

nu is noise deviation over replace-one sensitivity (2C/B per sample, 2G per batch). Adding or removing a sample moves a
per-sample clipped sum half as far, so nu is doubled there. Combinations that the table does not hold have no proof and
are refused.
"""

from typing import Literal, TypeAlias, get_args

from wirelessdl.errors import UnsoundError
from wirelessdl.privacy.pld import Sampled

Accountant: TypeAlias = Literal["rdp-wang19", "rdp", "pld", "gdp"]
Sampler: TypeAlias = Literal["without-replacement", "poisson", "full-batch", "shuffled"]
Adjacency: TypeAlias = Literal["replace-one", "add-remove"]
Clipping: TypeAlias = Literal["per-sample", "batch"]

ACCOUNTANTS: tuple[Accountant, ...] = ("rdp-wang19", "rdp", "pld", "gdp")
# the accountants' names of what `learning.sampling` names
SAMPLERS: dict[str, Sampler] = {
    "without-replacement": "without-replacement",
    "poisson": "poisson",
    "full": "full-batch",
    "shuffled": "shuffled",
}

# (sampler, adjacency, clipping) -> accountant -> factor of nu
_VALID: dict[tuple[Sampler, Adjacency, Clipping], dict[Accountant, float]] = {
    ("without-replacement", "replace-one", "per-sample"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("without-replacement", "replace-one", "batch"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("poisson", "replace-one", "per-sample"): {"rdp-wang19": 1, "pld": 1, "gdp": 1},
    ("poisson", "replace-one", "batch"): {"rdp-wang19": 1, "pld": 1, "gdp": 1},
    ("poisson", "add-remove", "per-sample"): {"rdp-wang19": 2, "rdp": 2, "pld": 2, "gdp": 2},
    ("poisson", "add-remove", "batch"): {"rdp-wang19": 1, "rdp": 1, "pld": 1, "gdp": 1},
    ("full-batch", "replace-one", "per-sample"): {"gdp": 1},
    ("full-batch", "replace-one", "batch"): {"gdp": 1},
    ("full-batch", "add-remove", "per-sample"): {"gdp": 2},
    ("shuffled", "replace-one", "per-sample"): {"gdp": 1},  # rounds are epochs
    ("shuffled", "replace-one", "batch"): {"gdp": 1},
}


def valid_accountants(sampler: Sampler, adjacency: Adjacency, clipping: Clipping) -> tuple[Accountant, ...]:
    """The accountants that are valid for such releases, tightest last except for `gdp`."""
    return tuple(_VALID.get((sampler, adjacency, clipping), {}))


def noise_factor(accountant: Accountant, sampler: Sampler, adjacency: Adjacency, clipping: Clipping) -> float:
    """Factor of nu for this accountant; raises where it is not valid."""
    for what, value, known in (
        ("accountant", accountant, ACCOUNTANTS),
        ("sampler", sampler, get_args(Sampler)),
        ("adjacency", adjacency, get_args(Adjacency)),
        ("clipping", clipping, get_args(Clipping)),
    ):
        if value not in known:
            raise ValueError(f"{what} is {value!r}; must be one of {', '.join(known)}")
    factors = _VALID.get((sampler, adjacency, clipping), {})
    if accountant not in factors:
        what = f"{sampler} sampling, {adjacency} neighbours and {clipping} clipping"
        remedy = f"valid there: {', '.join(factors)}" if factors else f"nothing is; {_remedy(sampler)}"
        raise UnsoundError(f"{accountant} proves nothing for {what}; {remedy}")
    return factors[accountant]


def profile_of(sampler: Sampler, clipping: Clipping) -> Sampled:
    """The privacy profile of replace-one neighbours; clipped as one, a Poisson batch is treated as any other."""
    return "poisson" if sampler == "poisson" and clipping == "per-sample" else "without-replacement"


def _remedy(sampler: Sampler) -> str:
    if sampler == "without-replacement":
        return "use replace-one neighbours, or poisson sampling"
    return "use replace-one neighbours"
