"""How often the program looks for garbage."""

import subprocess
import sys

COMMAND = """
import atexit, gc, sys
sys.argv = ["hostbench", "--version"]
atexit.register(lambda: print(gc.get_freeze_count() > 0))
from hostbench.cli import main
main()
before = [each["collections"] for each in gc.get_stats()]
kept = [[] for _ in range(50_000)]
print(sum(each["collections"] for each in gc.get_stats()) - sum(before))
"""


def test_it_seldom_looks_for_garbage_and_not_at_its_end() -> None:
    said = subprocess.check_output([sys.executable, "-c", COMMAND], text=True)
    *_, num_looks, frozen = said.splitlines()
    assert int(num_looks) == 0 and frozen == "True"
