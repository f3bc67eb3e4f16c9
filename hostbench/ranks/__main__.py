"""`torchrun ... -m hostbench.ranks`: one rank of a run over many hosts."""

import sys

from hostbench.cli.hosts import main

if __name__ == "__main__":
    sys.exit(main())
