"""Time: SimPy moves it, and each slot client_indices one batch to the learning engine."""
