"""Learning: the models of all K nodes as one batch. The only package that imports torch."""
