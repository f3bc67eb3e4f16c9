"""The answer to one question about one run: figures, and a verdict where it says more."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from hostbench.core.units import format_factor
from hostbench.families.question import Figure
from hostbench.judge.conclude import Conclusion
from hostbench.report.blocks import Block, Column, Item, Subheading, Table

State = Literal["yes", "no", "partly", "figure", "undecided", "unavailable"]


CLOSE = 0.25
"""An undecided comparison that leaves less than this possible is worth its bound; beyond it what
matters is why the launches do not tell."""


def difference(conclusion: Conclusion, is_share: bool = False) -> str:
    """A conclusion in a few words: `2.6x faster (2.1-3.2)`, `same within 3 %`, or how large a
    difference may still be, or why the launches do not tell. What is slower may have a share of the
    other's speed instead: `57% of the speed (38%-86%)`."""
    if conclusion.is_different:
        low, high = conclusion.low or math.nan, conclusion.high or math.nan
        if is_share and conclusion.verdict == "slower":
            return f"{conclusion.factor:.0%} of the speed ({low:.0%}-{high:.0%})"
        ends = (low, high) if conclusion.verdict == "faster" else (1 / high, 1 / low)
        between = "-".join(format_factor(end)[:-1] for end in ends)
        return f"{format_factor(factor(conclusion))} {conclusion.verdict} ({between})"
    if conclusion.verdict == "same":
        return f"same within {_percent(conclusion.possible)}"
    if conclusion.is_few:
        return "undecided: too few launches"
    if conclusion.possible <= CLOSE:
        return f"differs by less than {_percent(conclusion.possible)}"
    spread = conclusion.spread
    vary = f"{spread:.0f}x" if spread > 2 else _percent(spread)  # `20x` reads, `1988 %` does not
    return f"undecided: launches vary {vary}"


def weight(conclusion: Conclusion) -> tuple[bool, float, float]:
    """The largest difference that is established, else what leaves most possible."""
    is_different = conclusion.is_different
    return is_different, 0.0 if is_different else conclusion.possible, factor(conclusion)


def factor(conclusion: Conclusion) -> float:
    """How many times faster or slower, 1 or more."""
    return max(conclusion.factor, 1 / conclusion.factor)


def _percent(share: float) -> str:
    return f"{math.ceil(100 * share)} %" if math.isfinite(share) else "any factor"


@dataclass(frozen=True, slots=True)
class ScreenLine:
    """What the first screen says of one question: at most 100 characters in three columns."""

    what: str
    figures: str
    verdict: str
    conclusion: Conclusion | None = None
    """What the verdict rests on, where it names a difference."""
    habit: str = ""
    """How the summary on top calls it, where the difference is established."""


LONG = 60
"""Characters of a note that stand in one line."""
_COLUMNS = tuple(Column((name,), "") for name in ("choice", "figure", "against", "note"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what a run says about it."""

    family: str
    workload: str
    """The one that the question is about."""
    question: str
    """Its text, with the choices that this answer is about."""
    state: State
    verdict: str = ""
    """One short sentence, where the figures do not say it themselves."""
    figures: tuple[Figure, ...] = ()
    at: str = ""
    """`At 64MiB, async.`: the size and the further choices that all figures share."""
    notes: tuple[str, ...] = ()
    """Sentences that explain the figures."""
    lines: tuple[ScreenLine, ...] = ()
    """Of the first screen; none for a question that only the full report answers."""

    @property
    def is_answered(self) -> bool:
        """False where there is nothing but the reason why: no answer and no number."""
        return self.state != "unavailable" or any(
            figure.value is not None for figure in self.figures
        )

    def headline(self) -> str:
        """In one line: as the first screen says it, else the verdict."""
        shown = [", ".join(filter(None, (own.figures, own.verdict))) for own in self.lines]
        return next(iter(shown), self.verdict or self.state)

    def rows(self) -> Iterator[dict[str, str]]:
        """A row for each figure, and one for each further part of a long note."""
        for figure in self.figures:
            is_long = len(figure.note) > LONG
            note, *more = figure.note.split("; ") if is_long else [figure.reason or figure.note]
            row = {"choice": figure.label, "figure": figure.number(), "against": figure.against}
            yield {**row, "note": note}
            yield from ({**dict.fromkeys(row, ""), "note": note} for note in more)

    def blocks(self) -> Iterator[Block]:
        """As pages have it: the question, the verdict, the figures, the notes."""
        yield Subheading(f"{self.question} {self.at}".strip())
        if self.verdict:
            yield Item(f"  {self.verdict}")
        if rows := [*self.rows()]:
            shown = [own for own in _COLUMNS if any(row[own.keys[0]] for row in rows)]
            yield Table(tuple(shown), rows, indent=4)
        yield from (Item(f"  {note}") for note in self.notes)


def joined(texts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = [*texts] or [""]
    return f"{', '.join(most)} and {last}" if most else last
