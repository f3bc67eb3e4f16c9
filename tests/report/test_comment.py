"""The comment on a pull request: the answer first, and no markup of anybody else's."""

import re
from html import escape

import pytest
from markdown_it import MarkdownIt

from hostbench.judge.compare import Comparison, Verdict
from hostbench.report.comment import MARKER, Asked, of_nothing, of_result
from hostbench.report.places import Key
from hostbench.report.sides import Lacking, Sides
from hostbench.report.table import code
from tests.report.test_compare_command import CASES

ASKED = Asked(
    names=("main (1a2b3c4d)", "working tree (5e6f7a8b)"),
    subjects=("2026-11-20 faster copies", ""),
    machine="shelf",
    command="hostbench ab main --budget 600s",
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
        is_provisional=False,
        why="",
    )


def sides(*lacking: Lacking) -> Sides:
    return Sides(
        series={},
        interleaved={},
        shares={},
        asv={},
        confounded={},
        lacking=[*lacking],
        in_bytes=set(),
        remarks=[],
    )


def answer(found: dict[Key, Comparison], *lacking: Lacking) -> str:
    first, second = of_result(found, sides(*lacking), ASKED, ()).splitlines()[:2]
    assert first == MARKER
    return second


SLOWER, WORSE = one("slower", 0.1), one("slower", 0.3)
FASTER, SAME, OPEN = one("faster", -0.2), one("same", 0.0), one("undecided", 0.03)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            (SLOWER, WORSE, SAME),
            "**Slower:** 2 of 3 cases, the most `transfer.host_to_device[device=cpu,nbytes=2KiB,"
            "memory=pageable,blocking=True]@shelf` by 30.0% "
            "(99 % interval +28.0% to +33.0%); 1 same",
        ),
        ((FASTER, SLOWER, OPEN), "**Slower:** 1 of 3 cases, `transfer.host_to_device["),
        ((FASTER, SAME), "**Faster:** 1 of 2 cases, `transfer.host_to_device["),
        ((SAME, OPEN), "**Undecided:** 1 of 2 cases, +1.0% to +6.0% is possible at `transfer."),
        ((SAME, SAME), "**Same:** all 2 cases, within 5%"),
        ((SAME,), "**Same:** the one case, within 5%"),
        ((), "**Nothing measured:** no case has numbers on both sides"),
    ],
)
def test_the_first_line_is_the_answer(found: tuple[Comparison, ...], said: str) -> None:
    assert answer({key(place): one for place, one in enumerate(found)}).startswith(said)


def test_a_failure_comes_first() -> None:
    lacking = Lacking(key=key(1), place=1, status="failed", reason="out of memory", other=True)
    said = of_result({key(0): SAME}, sides(lacking), ASKED, ())
    assert said.splitlines()[1].startswith(
        "**Failed:** 1 case that the other side measures. **Same"
    )
    assert "- `failed at working tree (5e6f7a8b): transfer.host_to_device[" in said
    assert ": out of memory`\n" in said
    old = Lacking(key=key(1), place=0, status="failed", reason="", other=True)
    assert answer({key(0): SAME}, old) == "**Same:** the one case, within 5%; 1 failed"
    both = [Lacking(key=key(2), place=n, status="failed", reason="", other=False) for n in (0, 1)]
    assert answer({key(0): SAME}, lacking, *both).endswith("within 5%; 1 more failed")
    assert answer({}, lacking) == "**Failed:** 1 case that the other side measures"
    assert answer({}, *both).endswith("no case has numbers on both sides; 1 failed")


def test_what_changed_is_in_the_table_and_the_rest_is_said() -> None:
    found = {key(0): SLOWER, key(1): SAME, key(2): OPEN}
    said = of_result(found, sides(), ASKED, ["2 cases left out, not in main"])
    html = rendered(said)
    assert html.count("<tr>") == 1 + 2 and html.index("<td>slower") < html.index("<td>undecided")
    assert "Smallest detectable effect: about 2.5% in half of the cases." in said
    assert "- `2 cases left out, not in main`" in said
    assert "- A: `main (1a2b3c4d)`: `2026-11-20 faster copies`\n- B: `working tree (" in said
    assert said.endswith("- machine: `shelf`\n- again: `hostbench ab main --budget 600s`\n")


def test_a_long_table_is_cut_short() -> None:
    found = {key(0, f"transfer.host_to_device[nbytes={place}]"): SLOWER for place in range(500)}
    said = of_result(found, sides(), ASKED, [HOSTILE * 100] * 300)
    assert "480 more are not listed." in said and "- and 290 more" in said
    assert len(said) < 20_000


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_no_text_from_elsewhere_is_markup() -> None:
    asked = Asked(
        names=(HOSTILE, HOSTILE), subjects=(HOSTILE,) * 2, machine=HOSTILE, command=HOSTILE
    )
    lacking = Lacking(key=key(1), place=1, status="failed", reason=HOSTILE, other=True)
    for case in (f"transfer.x[{HOSTILE}]", HOSTILE, "\\", "\\\\|\\|"):
        told = one("undecided", 0.1)
        for said in (
            of_result({key(0, case): told}, sides(lacking), asked, [HOSTILE, "\\", "`"]),
            of_nothing(HOSTILE, asked),
        ):
            html = rendered(said)
            assert said.count("\n<!--") == 0 and said.startswith(MARKER)
            for tag in ("<img", "<a ", "<h1", "<strong>b", "<del", "<pre", "\u202e"):
                assert tag not in html, tag
            table = html.partition("<tbody>")[2].partition("</tbody>")[0]
            assert table.count("<td") in (0, 7)
            prose = [part.partition("<code>")[0] for part in html.split("</code>")]
            assert not any("evil" in part or "@every" in part for part in prose)


@pytest.mark.parametrize("text", ["ab `x`;$(id) '``' main", "`", "``a"])
def test_code_is_what_was_typed(text: str) -> None:
    """A branch may be called so: another quote in its place would end that of the shell."""
    assert f"<code>{escape(text, quote=False)}</code>" in rendered(code(text))


def test_nothing_measured_is_said() -> None:
    said = of_nothing("nothing to compare: 3 cases left out", ASKED)
    assert said.splitlines()[:2] == [
        *(MARKER, "**Nothing measured:** `nothing to compare: 3 cases left out`")
    ]


@pytest.mark.parametrize("text", ["a|b", "a\\|b", "a\\\\|b", "|", "\\\\\\|", "a\\"])
def test_a_bar_ends_no_cell(text: str) -> None:
    """GitHub takes two backslashes before a bar for one that is escaped, and a bar that is not."""
    bars = re.findall(r"(\\*)\|", code(text, in_table=True))
    assert bars == ["\\"] * text.count("|")
