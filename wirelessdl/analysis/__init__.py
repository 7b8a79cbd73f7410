"""Figures, reports and comparisons of runs: reads traces, and nothing else."""
