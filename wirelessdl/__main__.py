"""`python -m wirelessdl`."""

from wirelessdl.cli.main import main

main()
