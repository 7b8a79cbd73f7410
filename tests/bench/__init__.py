"""Many runs: benchmarks, and later sweeps."""
