"""The comment on a pull request: the answer first, and no markup of anybody else's."""

import re
from collections.abc import Sequence
from html import escape

import pytest
from markdown_it import MarkdownIt

from hostbench.judge.two_sides import Comparison, Verdict
from hostbench.report.comparison import MARKER, Compared, comment, comment_of_nothing, in_order
from hostbench.report.sides import Key, Lacking
from hostbench.report.write import code
from tests.report.test_compare_command import CASES

ABOUT = (
    "A: main (1a2b3c4d): 2026-11-20 faster copies",
    "B: working tree (5e6f7a8b)",
    "machine: shelf",
    "again: hostbench ab main --budget 600s",
)
HOSTILE = (
    "a`b <img src=x onerror=alert(1)> | x \\| y || [click](http://evil.example) @everyone\n\n"
    "# head\n| - | <!-- hostbench: ab --> www.evil.example **b** \u202e ~~~\n```\n#12 &lt;"
)


def key(place: int, case: str = "") -> Key:
    return ("shelf", case or str(CASES[place]), "1")


def one(verdict: Verdict, effect: float) -> Comparison:
    return Comparison(
        verdict=verdict,
        effect=effect,
        low=effect - 0.02,
        high=effect + 0.03,
        num=(7, 7),
        before=1.0,
        after=1.0 + effect,
    )


def result(
    found: dict[Key, Comparison],
    *lacking: Lacking,
    remarks: Sequence[str] = (),
    about: Sequence[str] = ABOUT,
) -> str:
    names = ("A", "B")
    both = Compared(
        names=names, typed=names, comparisons=in_order(found), lacking=lacking, remarks=remarks
    )
    return comment(both, about)


def answer(found: dict[Key, Comparison], *lacking: Lacking) -> str:
    first, second = result(found, *lacking).splitlines()[:2]
    assert first == MARKER
    return second


SLOWER, WORSE = one("slower", 0.1), one("slower", 0.3)
FASTER, SAME, OPEN = one("faster", -0.2), one("same", 0.0), one("undecided", 0.03)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ((SLOWER, WORSE, SAME), "**Slower:** 2 slower, 1 same"),
        ((FASTER, SAME), "**Faster:** 1 faster, 1 same"),
        ((SAME, OPEN), "**Undecided:** 1 undecided, 1 same"),
        ((), "**Nothing measured:** no series has numbers on both sides"),
    ],
)
def test_the_first_line_is_the_answer(found: tuple[Comparison, ...], line: str) -> None:
    assert answer({key(place): one for place, one in enumerate(found)}) == line


def test_a_failure_comes_first() -> None:
    lacking = Lacking(key=key(1), side=1, status="proof failed", reason="no bytes", other=True)
    text = result({key(0): SAME}, lacking)
    assert text.splitlines()[1] == "**Failed:** 1 same; 1 failed"
    assert "- `proof failed at B: transfer.host_to_device[" in text and ": no bytes`\n" in text
    old = Lacking(key=key(1), side=0, status="failed", reason="", other=True)
    assert answer({key(0): SAME}, old) == "**Same:** 1 same; 1 failed"
    both = [Lacking(key=key(2), side=n, status="failed", reason="", other=False) for n in (0, 1)]
    assert answer({key(0): SAME}, lacking, *both) == "**Failed:** 1 same; 2 failed"


def test_what_changed_is_in_the_table_and_the_rest_is_named() -> None:
    found = {key(0): SLOWER, key(1): SAME, key(2): OPEN}
    text = result(found, remarks=["2 cases left out, not in main"])
    html = rendered(text)
    assert html.count("<tr>") == 1 + 2 and html.index("<td>slower") < html.index("<td>undecided")
    assert "- `Half of the series would show a change of 2.5%.`" in text
    assert "- `2 cases left out, not in main`" in text
    assert text.endswith("".join(f"- `{line}`\n" for line in ABOUT))


def test_a_long_table_is_cut_short() -> None:
    found = {key(0, f"transfer.host_to_device[nbytes={place}]"): SLOWER for place in range(500)}
    text = result(found, remarks=[HOSTILE * 100] * 300)
    assert "480 more are not listed." in text and "- and 291 more" in text
    assert len(text) < 20_000


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_no_text_from_elsewhere_is_markup() -> None:
    about = (HOSTILE,) * 4
    lacking = Lacking(key=key(1), side=1, status="failed", reason=HOSTILE, other=True)
    for case in (f"transfer.x[{HOSTILE}]", HOSTILE, "\\", "\\\\|\\|"):
        told = one("undecided", 0.1)
        for said in (
            result({key(0, case): told}, lacking, remarks=[HOSTILE, "\\", "`"], about=about),
            comment_of_nothing("Failed", HOSTILE, about),
        ):
            html = rendered(said)
            assert said.count("\n<!--") == 0 and said.startswith(MARKER)
            for tag in ("<img", "<a ", "<h1", "<strong>b", "<del", "<pre", "\u202e"):
                assert tag not in html, tag
            table = html.partition("<tbody>")[2].partition("</tbody>")[0]
            assert table.count("<td") in (0, 8)
            prose = [part.partition("<code>")[0] for part in html.split("</code>")]
            assert not any("evil" in part or "@every" in part for part in prose)


@pytest.mark.parametrize("text", ["ab `x`;$(id) '``' main", "``a"])
def test_code_is_what_was_typed(text: str) -> None:
    """A branch may be called so: another quote in its place would end that of the shell."""
    assert f"<code>{escape(text, quote=False)}</code>" in rendered(code(text))


@pytest.mark.parametrize("text", ["a|b", "a\\|b", "a\\\\|b"])
def test_a_bar_ends_no_cell(text: str) -> None:
    """GitHub takes two backslashes before a bar for one that is escaped, and a bar that is not."""
    bars = re.findall(r"(\\*)\|", code(text, in_table=True))
    assert bars == ["\\"] * text.count("|")
