"""Path loss models."""
