"""One nightly at a time on a machine."""

import os
import subprocess
import sys

import pytest

from hostbench.cli.nightly import only_one
from hostbench.core.errors import NothingMeasured

HOLD = """
import sys, time
from hostbench.cli.nightly import only_one
with only_one(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_the_holder_is_gone() -> None:
    what = f"the shelf of {os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", HOLD, what], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None and held.stdout.readline() == b"held\n"
        with only_one("another shelf"), pytest.raises(NothingMeasured, match=what), only_one(what):
            pass
        held.kill()
        held.wait()
    with only_one(what):
        pass
