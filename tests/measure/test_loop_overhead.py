"""What is inside the timer beside the steps, and the script that says what it costs."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostbench.measure.measure import reading

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("count", [1, 100])
def test_a_reading_is_its_steps_three_looks_at_the_clock_and_a_synchronize(count: int) -> None:
    """However many steps: what the loop adds is shared by all of them."""
    done: Counter[str] = Counter()

    def now() -> float:
        done["now"] += 1
        return float(done["step"] + 10 * done["synchronize"])

    def step() -> None:
        done["step"] += 1

    def synchronize() -> None:
        done["synchronize"] += 1

    assert reading(step, count, now, synchronize) == ((count + 10) / count, 1.0)
    assert done == {"now": 3, "step": count, "synchronize": 1}


def test_the_script_has_a_row_for_each_way_to_measure_a_step() -> None:
    argv = [sys.executable, str(ROOT / "scripts/loop-overhead"), "--launches", "1"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0].startswith("1 launches; the bare step takes ")
    assert [line[:28].strip() for line in said[2:]] == [
        "enqueues nothing",
        "100 steps, 1 synchronize",
        "1 step, 1 synchronize",
    ]
    assert all(len(line[28:].split()) == 3 for line in said[2:])
