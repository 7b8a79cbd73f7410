"""A partition of regression data on which the nodes' optima lie far apart."""

import numpy as np


class ByLabel:
    """Nodes hold samples of rising labels."""

    def split(self, labels, nodes, rng):  # noqa: ARG002
        return np.array_split(np.argsort(labels, kind="stable"), nodes)
