"""`python -m wirelessdl`."""

from wirelessdl.cli.main import main

if __name__ == "__main__":  # not when a process of `audit` imports it again
    main()
