"""One nightly at a time on a machine."""

import os
import signal
import subprocess
import sys

import pytest

from hostbench.core.errors import NothingMeasured
from hostbench.runner.lock import only_one

HOLD = """
import sys, time
from hostbench.runner.lock import only_one
with only_one(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_holds_it() -> None:
    with only_one("a shelf"), only_one("another shelf"):
        with pytest.raises(NothingMeasured, match=rf"a shelf \(process {os.getpid()}\)"):
            with only_one("a shelf"):
                pass
    with only_one("a shelf"):
        pass


def test_a_killed_holder_leaves_nothing() -> None:
    what = f"the shelf of {os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", HOLD, what], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None and held.stdout.readline() == b"held\n"
        with pytest.raises(NothingMeasured, match=f"process {held.pid}"):
            with only_one(what):
                pass
        held.send_signal(signal.SIGKILL)
        held.wait()
    with only_one(what):
        pass
