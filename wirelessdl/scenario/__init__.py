"""Scenarios: TOML in, a checked and frozen description out."""
