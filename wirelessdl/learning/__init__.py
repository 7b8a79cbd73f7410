"""K private models as one batch; the only room that knows torch."""
