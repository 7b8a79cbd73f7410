"""Studies: many runs of one scenario on dask.distributed, in one directory with one index."""
