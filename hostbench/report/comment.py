"""What `hostbench ab` came to, as a comment on a pull request.

Names, reasons and commit messages are anybody's text, and who reads the comment must not be sent
anywhere by it: all of it is code, where nothing is markup, a link or a mention.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hostbench.core.case import as_typed
from hostbench.core.units import number_of
from hostbench.judge.compare import SAME_WITHIN, Comparison
from hostbench.report.comparison import counts, detectable, in_order, name_of, table
from hostbench.report.places import Key
from hostbench.report.sides import Sides
from hostbench.report.table import Table, code, markdown

MARKER = "<!-- hostbench: ab -->"
"""The first line, by which a comment is found again and put in the place of the older one."""
_ROWS, _LINES, _WIDTH, _ALONE = 20, 10, 300, 1000
"""The most that is shown of series, of reasons, of one of these, and of one that stands alone: a
host refuses long ones."""
_COLUMNS = ("verdict", "change", "99 % interval", "before", "after", "n", "series")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was compared, and how."""

    names: tuple[str, str]
    """What a person calls the two."""
    subjects: tuple[str, str]
    """The commits' dates and first lines; empty where there is none."""
    machine: str
    command: str
    """To be typed to see it again."""


def of_result(
    found: Mapping[Key, Comparison], sides: Sides, asked: Asked, left_out: Sequence[str]
) -> str:
    """`left_out`: what was not measured, and what else has to be known."""
    shown = {key: one for key, one in in_order(found) if one.verdict != "same"}
    rows = dict([*shown.items()][:_ROWS])
    lines = [MARKER, _answer(found, sides), ""]
    if rows:
        lines += [markdown([_short_table(rows, sides)]), ""]
    if len(shown) > len(rows):
        lines += [f"{len(shown) - len(rows)} more are not listed.", ""]
    least = detectable(found)
    if least is not None:
        lines.append(f"Smallest detectable effect: about {least:.1%} in half of the cases.")
    failed = [
        f"failed at {asked.names[one.place]}: {as_typed(name_of(one.key))}: {one.reason}"
        for one in sides.lacking
        if one.status == "failed"
    ]
    return "\n".join([*lines, *_known([*failed, *left_out]), *_footer(asked)]) + "\n"


def of_nothing(why: str, asked: Asked, answer: str = "Nothing measured") -> str:
    """Where there is nothing to judge."""
    return "\n".join([MARKER, f"**{answer}:** {_short(why, _ALONE)}", *_footer(asked)]) + "\n"


def _answer(found: Mapping[Key, Comparison], sides: Sides) -> str:
    """The worst first: failed at B alone, slower, faster, undecided, the same. Last, how many
    others failed."""
    failed = [one for one in sides.lacking if one.status == "failed"]
    broken = {one.key for one in failed if one.place and one.other}
    said = []
    if broken:
        said.append(f"**Failed:** {number_of(len(broken), 'case')} that the other side measures")
    if found or not broken:
        said.append(_verdict(found))
    others = len({one.key for one in failed} - broken)
    return ". ".join(said) + f"; {others}{' more' * bool(broken)} failed" * bool(others)


def _verdict(found: Mapping[Key, Comparison]) -> str:
    if not found:
        return "**Nothing measured:** no case has numbers on both sides"
    key, first = in_order(found)[0]
    if first.verdict == "same":
        return f"**Same:** {_of(found, 'same')}, within {SAME_WITHIN:.0%}"
    case = code(as_typed(name_of(key)))
    others = counts({key: one for key, one in found.items() if one.verdict != first.verdict})
    rest = f"; {others}" if len({one.verdict for one in found.values()}) > 1 else ""
    how = f"too few launches as of {case}"
    if first.low is not None:
        interval = f"{first.low:+.1%} to {first.high:+.1%}"
        by = f"{abs(first.effect or 0):.1%} (99 % interval {interval})"
        most = "the most " * (sum(one.verdict == first.verdict for one in found.values()) > 1)
        is_open = first.verdict == "undecided"
        how = f"{interval} is possible at {case}" if is_open else f"{most}{case} by {by}"
    return f"**{first.verdict.capitalize()}:** {_of(found, first.verdict)}, {how}{rest}"


def _of(found: Mapping[Key, Comparison], verdict: str) -> str:
    num = sum(one.verdict == verdict for one in found.values())
    if num == len(found):
        return f"all {number_of(num, 'case')}" if num > 1 else "the one case"
    return f"{num} of {number_of(len(found), 'case')}"


def _short_table(found: Mapping[Key, Comparison], sides: Sides) -> Table:
    whole = table(found, sides)
    places = [[column.title for column in whole.columns].index(title) for title in _COLUMNS]
    rows = tuple(tuple(row[place] for place in places) for row in whole.rows)
    return Table(columns=tuple(whole.columns[place] for place in places), rows=rows)


def _known(left_out: Sequence[str]) -> Iterator[str]:
    if not left_out:
        return
    yield from ("", "What to know, and what was not measured:", "")
    yield from (f"- {_short(one)}" for one in left_out[:_LINES])
    if len(left_out) > _LINES:
        yield f"- and {len(left_out) - _LINES} more, which the command prints"


def _footer(asked: Asked) -> Iterator[str]:
    yield from ("", "What was compared:", "")
    for letter, name, subject in zip("AB", asked.names, asked.subjects, strict=True):
        yield f"- {letter}: {_short(name)}" + (f": {_short(subject)}" if subject else "")
    if asked.machine:
        yield f"- machine: {_short(asked.machine)}"
    yield f"- again: {_short(asked.command)}"


def _short(text: str, most: int = _WIDTH) -> str:
    kept = text.strip()
    return code(kept if len(kept) <= most else f"{kept[:most]} ...")
