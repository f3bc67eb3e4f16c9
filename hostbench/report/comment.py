"""What `hostbench ab` came to, as a comment on a pull request.

Names, reasons and commit messages are anybody's text, and who reads the comment must not be sent
anywhere by it: all of it is code, where nothing is markup, a link or a mention.
"""

from collections.abc import Iterator, Mapping, Sequence

from hostbench.core.case import as_typed
from hostbench.judge.two_sides import Comparison
from hostbench.report.comparison import counts, in_order, in_words, name_of, table
from hostbench.report.side_runs import Key
from hostbench.report.sides import Sides
from hostbench.report.write import code, markdown

MARKER = "<!-- hostbench: ab -->"
"""The first line, by which a comment is recognized, and put in the place of the older one."""
_ROWS, _LINES, _WIDTH = 20, 10, 300
"""The most that is shown of series, of lines of one kind, and of one line: a host refuses long
ones."""


def of_result(
    comparisons: Mapping[Key, Comparison],
    sides: Sides,
    remarks: Sequence[str],
    about: Sequence[str],
) -> str:
    """The answer, a row for each case that is not the same, and what was not measured. `about`:
    what was compared."""
    shown = [(key, own) for key, own in in_order(comparisons) if own.verdict != "same"]
    failed = [lack for lack in sides.lacking if "failed" in lack.status]
    answer = "Nothing measured"
    if sides.broke:
        answer = "Failed"
    elif comparisons:
        answer = in_order(comparisons)[0][1].verdict.capitalize()
    num_failed = len({lack.key for lack in failed})
    lines = [
        MARKER,
        f"**{answer}:** {counts(comparisons)}{f'; {num_failed} failed' * bool(failed)}",
        "",
    ]
    if shown:
        lines += [markdown([table(dict(shown[:_ROWS]), sides)]), ""]
    if len(shown) > _ROWS:
        lines += [f"{len(shown) - _ROWS} more are not listed.", ""]
    reasons = [
        f"{lack.status} at {'AB'[lack.side]}: {as_typed(name_of(lack.key))}: {lack.reason}"
        for lack in failed
    ]
    known = [*reasons, *in_words(comparisons, sides), *remarks]
    return "\n".join([*lines, *_items(known), *_compared(about)]) + "\n"


def of_nothing(answer: str, why: str, about: Sequence[str]) -> str:
    """Where there is nothing to judge."""
    return "\n".join([MARKER, f"**{answer}:** {_short(why, 1000)}", *_compared(about)]) + "\n"


def _compared(about: Sequence[str]) -> Iterator[str]:
    yield from ("", "What was compared:", "")
    yield from _items(about)


def _items(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {_short(line)}" for line in lines[:_LINES])
    if len(lines) > _LINES:
        yield f"- and {len(lines) - _LINES} more, which the command prints"


def _short(text: str, most: int = _WIDTH) -> str:
    line = text.strip()
    return code(line if len(line) <= most else f"{line[:most]} ...")
