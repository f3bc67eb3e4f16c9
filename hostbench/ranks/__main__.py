"""`torchrun ... -m hostbench.ranks`: one rank of a run over many hosts."""

import signal
import sys

from hostbench.core.processes import die_with_torchrun

if __name__ == "__main__":
    die_with_torchrun(signal.SIGKILL)  # before what takes long to import

    from hostbench.cli.hosts import main

    sys.exit(main())
