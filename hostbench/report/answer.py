"""The answer to one question about one run: a verdict and figures. Records; no pandas."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hostbench.core import units
from hostbench.families.question import Figure
from hostbench.judge.conclude import Conclusion

State = Literal["yes", "no", "partly", "figure", "undecided", "unavailable"]


CLOSE = 0.25
"""An undecided comparison that leaves less than this possible is worth its bound; beyond it what
matters is why the launches do not tell."""


def difference(conclusion: Conclusion) -> str:
    """A conclusion in a few words: `2.6x faster`, `same within 3 %`, or how large a difference may
    still be, or why the launches do not tell."""
    if conclusion.is_different:
        return f"{units.format_factor(factor(conclusion))} {conclusion.verdict}"
    if conclusion.verdict == "same":
        return f"same within {_percent(conclusion.possible)}"
    if conclusion.is_few:
        return "undecided: too few launches"
    if conclusion.possible <= CLOSE:
        return f"differs by less than {_percent(conclusion.possible)}"
    spread = conclusion.spread
    vary = f"{spread:.0f}x" if spread > 2 else _percent(spread)  # `20x` reads, `1988 %` does not
    return f"undecided: launches vary {vary}"


def interval(conclusion: Conclusion) -> str:
    """Of an established factor: `1.9-25`."""
    low, high = conclusion.low or math.nan, conclusion.high or math.nan
    ends = (low, high) if conclusion.verdict == "faster" else (1 / high, 1 / low)
    return "-".join(units.format_factor(end)[:-1] for end in ends)


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
    learnt: str = ""
    """How the summary on top calls it, where the difference is established."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure beside the one that it is held against."""

    to: str
    """What it is held against; empty where that is said elsewhere."""
    conclusion: Conclusion
    share_of: str = field(default="", kw_only=True)
    """Of what a share is said instead of a factor of times: `that` where rates are compared."""

    def __str__(self) -> str:
        """A factor only where the difference is established."""
        conclusion = self.conclusion
        if conclusion.is_different and self.share_of:
            low, high = conclusion.low or 0.0, conclusion.high or math.inf
            share = f"{conclusion.factor:.0%} ({low:.0%} to {high:.0%})"
            words, link = f"{share} of {self.share_of}", " of"
        elif conclusion.is_different:
            times_more = units.format_factor(factor(conclusion))
            words, link = f"{times_more} {conclusion.verdict}", " than"
        elif conclusion.verdict == "same":
            words, link = "the same", " as"
        else:
            words = difference(conclusion)
            link = " from" if conclusion.possible <= CLOSE else ", beside"
        return f"{words}{link} {self.to}" if self.to else words


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what a run says about it."""

    family: str
    workload: str
    """The one that the question is about."""
    question: str
    """Its text, with the choices that this answer is about."""
    verdict: str
    """One short sentence; the headline."""
    state: State
    figures: tuple[Figure, ...] = ()
    at: str = ""
    """`At 64MiB, async.`: the size and the further choices that all figures share."""
    more_notes: tuple[str, ...] = ()
    """Sentences that explain the figures."""
    lines: tuple[ScreenLine, ...] = ()
    """Of the first screen; none for a question that only the full report answers."""

    @property
    def notes(self) -> list[str]:
        """In sentences, what explains the figures."""
        return [*filter(None, (self.at, *self.more_notes))]

    @property
    def details(self) -> list[str]:
        """Below the verdict: each figure that adds something to it, and each note, in words."""
        return [*self.figures_in_words(), *self.notes]

    def figures_in_words(self) -> list[str]:
        """What the verdict says already is not said again; the table of cases has each skip."""
        words = []
        for figure, text in zip(self.figures, in_words(self.figures), strict=True):
            is_reason = figure.status in ("refused", "undecided")
            adds = figure.reason if is_reason else text
            if figure.status != "skipped" and adds and adds not in self.verdict:
                words.append(text)
        return words

    @property
    def is_answered(self) -> bool:
        """False where there is nothing but the reason why: no answer and no number."""
        return self.state != "unavailable" or any(
            figure.value is not None for figure in self.figures
        )


def in_words(figures: Sequence[Figure]) -> list[str]:
    """Each figure; what several are held against alike is said once, before the first of them:
    `beside one process (4.35 ms): DDP 15.9 ms (3.7x slower)`, `ZeRO-1 19.2 ms (4.4x slower)`."""
    beside = [figure.ratio.to for figure in figures if figure.ratio]
    if len(beside) < 2 or len({*beside}) > 1:
        return [*map(str, figures)]
    first = next(index for index, figure in enumerate(figures) if figure.ratio)
    texts = [
        str(replace(figure, ratio=figure.ratio and replace(figure.ratio, to="")))
        for figure in figures
    ]
    return [*texts[:first], f"beside {beside[0]}: {texts[first]}", *texts[first + 1 :]]


def joined(texts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = [*texts] or [""]
    return f"{', '.join(most)} and {last}" if most else last
