"""Time: SimPy moves it, and each slot hands one batch to the learning engine."""
