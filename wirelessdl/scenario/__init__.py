"""What is to be simulated: TOML in, a checked and frozen description out."""
