"""One communication round: Algorithm 1 as a chain of stages."""
