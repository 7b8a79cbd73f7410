"""Previews of a scenario before it runs."""
