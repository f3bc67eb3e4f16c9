"""How the answers move from run to run of the same code on the same machine. Records; no pandas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from hostbench.report.answer import Answer

Said = Mapping[str, str]
"""Question -> state of its answer; question and figure -> the rule's word for that comparison."""

UNDECIDED = "undecided"
OPPOSITES = ({"faster", "slower"}, {"yes", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One answer, or one comparison in it, over the runs that have it."""

    name: str
    words: tuple[str, ...]
    """Of each run, in their order."""

    @property
    def is_answer(self) -> bool:
        return _BETWEEN not in self.name

    @property
    def num_pairs(self) -> int:
        return len(self.words) * (len(self.words) - 1) // 2

    @property
    def num_flips(self) -> int:
        """Pairs of runs of which one decides and the other does not."""
        return sum(
            (first == UNDECIDED) != (second == UNDECIDED)
            for first, second in combinations(self.words, 2)
        )

    @property
    def is_opposite(self) -> bool:
        """Two runs say opposite things."""
        return any(pair <= set(self.words) for pair in OPPOSITES)


_BETWEEN = " | "


def said(found: Iterable[Answer]) -> dict[str, str]:
    """What one run says."""
    words: dict[str, str] = {}
    for one in found:
        words[one.question] = one.state
        for figure in one.figures:
            if figure.ratio is not None:
                name = f"{one.question}{_BETWEEN}{figure.label} beside {figure.ratio.to}"
                words[name] = figure.ratio.conclusion.verdict
    return words


def moved(runs: Sequence[Said]) -> list[Moved]:
    """Of each answer and comparison, in the order in which they come."""
    names = dict.fromkeys(name for run in runs for name in run)
    return [Moved(name=n, words=tuple(run[n] for run in runs if n in run)) for n in names]
