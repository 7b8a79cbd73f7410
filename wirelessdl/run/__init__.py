"""A run as a whole: built from a scenario, recorded, interrupted and resumed."""
