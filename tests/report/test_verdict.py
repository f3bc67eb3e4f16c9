"""The words that lead an answer about overlap, from efficiencies made by hand."""

import pytest

from hostbench.core.efficiency import Efficiency
from hostbench.report.verdict import efficiency_in_words, verdict


def known(share: float, low: float | None = None, high: float | None = None) -> Efficiency:
    return Efficiency(share=share, low=low, high=high, ideal_s=1.0)


def refused(why: str) -> Efficiency:
    return Efficiency(share=None, low=None, high=None, ideal_s=None, refused=why)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"one": known(0.02), "two": known(0.93, 0.9, 0.95)},
            "yes: 93 % of what could be hidden is hidden by two",
        ),
        ({"one": known(0.3, 0.25, 0.33)}, "in part: 30 % of what could be hidden is hidden by one"),
        ({"one": known(-0.2)}, "no: at best 0 % of what could be hidden is hidden (one)"),
        (
            {"one": known(0.5, 0.05, 0.55)},
            "undecided, because the best, one, is somewhere from 0.05 to 0.55",
        ),
        ({"one": refused("noise"), "two": refused("noise")}, "undecided, because noise"),
        (
            {"one": known(0.04), "two": refused("launches differ")},
            "undecided, because the efficiency is not said of two: launches differ; of the others "
            "one hides most, 4 %",
        ),
        (
            {"one": known(0.8), "two": refused("launches differ")},
            "yes: 80 % of what could be hidden is hidden by one",
        ),
    ],
)
def test_the_verdict(found: dict[str, Efficiency], said: str) -> None:
    assert verdict(found) == said


def test_an_efficiency_says_what_it_lacks() -> None:
    assert efficiency_in_words(known(0.93, 0.9, 0.95), 10) == (
        "efficiency 0.93, 99 % interval 0.90 to 0.95"
    )
    assert efficiency_in_words(known(0.93), 3) == "efficiency 0.93, 3 launches: no interval"
    assert efficiency_in_words(refused("noise"), 3) == "efficiency not said: noise"
