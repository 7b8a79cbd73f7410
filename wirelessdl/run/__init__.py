"""Runs: built from a scenario, recorded, interrupted and resumed."""
