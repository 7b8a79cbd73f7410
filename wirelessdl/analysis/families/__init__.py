"""Families of curves of a study: which key has which role, the curves, and what they are called."""
