"""The round trip against one and two copy engines: exact on made-up launches."""

import pytest

from hostbench.core.round_trip import round_trip

NUM = 8
PART = dict.fromkeys(range(10), 8.0)
SERIAL = dict.fromkeys(range(10), 24.0)


def found(loop_s: float, **changes: dict[int, float]):
    parts = {"serial": SERIAL, "ins": PART, "outs": PART, "compute": PART, **changes}
    return round_trip(overlapped=dict.fromkeys(range(10), loop_s), num_batches=NUM, **parts)


@pytest.mark.parametrize(
    ("loop_s", "one", "two", "engines"),
    [
        (10.0, 1.75, 1.0, "as with two copy engines: 38% faster"),
        (16.0, 1.0, 4 / 7, "nothing shows a second"),
        (15.9, 1.0125, 0.5786, "nothing shows a second"),
        (24.0, 0.0, 0.0, "nothing shows a second"),
    ],
)
def test_both_bounds(loop_s: float, one: float, two: float, engines: str) -> None:
    """8 s each way and of compute: one engine needs 16 s, two need 1 + 8 + 1."""
    made = found(loop_s)
    assert made.ideals_s == {1: 16.0, 2: pytest.approx(10.0)}
    shares = {n: known.share for n, known in made.efficiencies.items()}
    assert shares == {1: pytest.approx(one), 2: pytest.approx(two, abs=1e-4)}
    assert engines in made.engines
    assert made.beats_one is (loop_s == 10.0)


def test_launches_that_differ_leave_it_undecided() -> None:
    loop = {n: 10.0 if n % 3 else 16.5 for n in range(10)}
    made = round_trip(SERIAL, loop, PART, PART, PART, NUM)
    assert "undecided" in made.engines


def test_nothing_is_said_without_whole_launches_or_apart_bounds() -> None:
    made = found(10.0, outs={})
    assert made.ideals_s == {} and not made.beats_one
    assert "no launch holds all parts" in made.engines
    assert str(made.efficiencies[2].refused).startswith("0 launch")
    slow = dict.fromkeys(range(10), 80.0)
    assert "nearly the same" in found(82.0, compute=slow, serial={0: 99.0}).engines
