"""Traces in Parquet: written while the run goes on, read with pandas."""
