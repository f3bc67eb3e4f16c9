"""`python -m hostbench` is the same program as `hostbench`."""

import sys

from hostbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
