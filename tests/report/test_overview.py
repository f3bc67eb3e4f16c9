"""What a history says as a whole, and how the static report begins with it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from hostbench.core.case import as_typed
from hostbench.report.causes import COLUMNS
from hostbench.report.html import html
from hostbench.report.overview import CauseInDetail, HistoryOverview, overview
from hostbench.report.table import Heading
from hostbench.store.history import History
from tests.fakes.history import CASES, nightly, slower_and_failing, write

NUM = 60
LEVEL = slower_and_failing(NUM)
HOSTILE = "<script>alert(1)</script> <img src=http://z> `a` &lt; \x1b[31m"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case is slower from the 31st night on, another fails in the last three."""
    results = tmp_path_factory.mktemp("overview") / "results"
    write(results, nightly(NUM), LEVEL, cases=CASES[:7], machine="one")
    return results


def seen(results: Path) -> HistoryOverview:
    return overview(History(results), Path.cwd())


def page(results: Path) -> str:
    history = History(results)
    run = history.runs()[-1]
    return html(history.rows_of(run), history.whole(run), history=seen(results))


def test_the_report_begins_with_what_changed(results: Path) -> None:
    found = seen(results)
    assert found.headline.startswith("1 cause fails on 1 machine, the newest since 2026-01-31; ")
    assert "1 series stopped; 7 of 7 series judged" in found.headline
    (row,) = found.table.rows
    assert (row[0], *row[3:6]) == ("fails now", "2026-01-31", "1", "one")
    (one,) = found.in_detail
    assert one.series == as_typed(f"{CASES[3]}@one")
    shown = page(results)
    first, last = re.findall("<h1>(.*?)</h1>", shown)
    assert first == found.headline and last.startswith("one (")
    of_history = shown.partition(f"<h1>{last}")[0]
    wanted = '<tr class="fails">', '<svg class="spark"', '<svg xmlns="', "Without a number since"
    places = [of_history.index(text) for text in wanted]
    assert places == sorted(places)


def test_the_same_history_gives_the_same_bytes(results: Path) -> None:
    assert page(results) == page(results)


def test_a_history_of_one_run_says_what_to_run(tmp_path: Path) -> None:
    write(tmp_path / "results", nightly(1), LEVEL, cases=CASES[:3], machine="one")
    shown = page(tmp_path / "results")
    assert "<h1>Nothing is judged yet; 0 of 3 series judged; newest run 2026-01-01" in shown
    assert "the longest piece has 1, 11 are needed; each <code>hostbench run</code> adds" in shown
    assert "<li>3 series: 1 point at most between two baseline resets, 11 are needed</li>" in shown


class Names(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_text_of_a_history_is_no_markup(results: Path) -> None:
    row = dict.fromkeys(COLUMNS, HOSTILE) | {
        "state": "fails now",
        "since": pd.Timestamp("2026-01-01"),
        "sparkline": [1.0, 2.0],
    }
    (real,) = seen(results).in_detail
    assert real.chart
    chart = {**real.chart, "title": {"text": [HOSTILE]}}
    detail = CauseInDetail(title=HOSTILE, evidence=(HOSTILE,), series=HOSTILE, chart=chart)
    hostile = HistoryOverview(
        headline=HOSTILE,
        causes=pd.DataFrame([row]),
        in_detail=(detail,),
        notes=(Heading(HOSTILE), f"  {HOSTILE}", HOSTILE),
        series=pd.DataFrame(),
    )
    history = History(results)
    run = history.runs()[-1]
    names = Names()
    names.feed(html(history.rows_of(run), history.whole(run), history=hostile))
    assert "svg" in names.found and not names.found & {"script", "img", "a", "link"}
