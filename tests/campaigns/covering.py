"""Rows in which every two alternatives of two options stand together: a covering array, built greedily.

A row is accepted by the caller's rule before it is used, since many combinations are refused on purpose. A pair that no
accepted row holds comes out by itself, as one to be refused.
"""

import itertools
import random

from options import OPTIONS
from rules import with_needs

_TRIES = 8


def pairs_of(row):
    """Every two alternatives that stand together in a row."""
    return set(itertools.combinations(sorted(row.items()), 2))


def all_pairs():
    every = [(option, name) for option, alternatives in OPTIONS.items() for name in alternatives]
    return {pair for pair in itertools.combinations(sorted(every), 2) if pair[0][0] != pair[1][0]}


def covering_array(rng: random.Random, accepts, most=0):
    """Complete rows, at most so many (0: all), that hold every pair that can be had; and pairs that no row holds."""
    missing, rows, refused = all_pairs(), [], []
    while missing and (not most or len(rows) < most):
        pair = rng.choice(sorted(missing))
        row = next((row for _ in range(_TRIES) if (row := _grown(rng, dict(pair), missing, accepts))), None)
        if row is None:
            refused.append(dict(pair))
            missing.discard(pair)
        else:
            rows.append(row)
            missing -= pairs_of(row)
    return rows, refused


def _grown(rng, start, missing, accepts):
    """A row around a pair, with the alternatives that cover most of what is missing; None where it is refused."""
    row = with_needs(start)
    if not accepts(row):
        return None
    options = [option for option in OPTIONS if option not in row]
    rng.shuffle(options)
    for option in options:
        names = list(OPTIONS[option])
        rng.shuffle(names)

        def gain(name, option=option):
            return sum(tuple(sorted([(option, name), other])) in missing for other in row.items())

        names.sort(key=gain, reverse=True)
        row[option] = next(name for name in names if accepts({**row, option: name}))  # its first one goes, at least
    return row
