"""The page Compare, held against `hostbench compare`."""

from pathlib import Path

import pytest
import streamlit
from streamlit.testing.v1 import AppTest

from hostbench.cli.entry import main
from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import said
from tests.dashboard_tree import CHANGED_MACHINE, SLOWER

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write_changes(tmp_path_factory.mktemp("changes"))


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def open_it(**query: str) -> AppTest:
        return dashboard_page.opened(monkeypatch, "compare", tree, **query)

    return open_it


def test_two_drivers_are_compared_as_the_command_does(open_page, tree: Path, capsys) -> None:
    """A link names both sides; the counts filter; the Markdown is the command's."""
    app = open_page(kind="driver", first="580.1", second="590.7", verdict="slower")
    assert not app.exception
    options = app.get("button_group")[0].options
    numbers = {one.split(" **")[0]: int(one.split("**")[1]) for one in options}
    table = app.dataframe[0].value
    assert set(table["verdict"]) == {"slower?"} and len(table) == numbers["slower"] > 0
    assert numbers["all"] == sum(
        numbers[kind] for kind in ("slower", "faster", "same", "undecided")
    )
    assert (table["low"] <= table["change"]).all() and (table["change"] <= table["high"]).all()
    assert app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    assert any(one.value.startswith("provisional") for one in app.caption)
    assert "geometric mean of after / before **1." in said(app)

    capsys.readouterr()
    asked = ("compare", "driver:580.1", "driver:590.7", "--results", str(tree), "--format", "md")
    main([*asked])
    command = capsys.readouterr().out.strip().splitlines()
    assert app.main.code[-1].value.splitlines()[0] == command[0]


def test_the_newest_two_commits_come_first_and_the_link_names_them(open_page) -> None:
    app = open_page()
    sides = [app.selectbox(key=key).value for key in ("first", "second")]
    assert len(set(sides)) == 2
    (link,) = (one.value for one in app.sidebar.code)
    assert all(f"={side}" in link for side in sides) and "kind=commit" in link
    assert not app.query_params
    app.selectbox(key="kind").set_value("run").run()
    assert set(app.query_params) == {"kind"} and not app.exception


def test_sides_that_cannot_be_compared_say_why(open_page) -> None:
    assert "which is not here" in open_page(first="none").warning[0].value
    app = open_page(machine=CHANGED_MACHINE, verdict="faster")
    assert not app.exception
    assert SLOWER not in said(app)


def test_commits_beyond_those_that_are_listed_are_found_by_how_they_begin(
    open_page, monkeypatch
) -> None:
    import choose

    known = open_page().selectbox(key="second").options
    monkeypatch.setattr(choose, "MOST_LISTED", 3)
    box = open_page().selectbox(key="second")
    assert len(box.options) == 3 and f"The first 3 of {len(known)} " in box.help
    app = open_page(second=known[5][:6])
    whole = app.selectbox(key="second").value
    assert not app.warning and len(whole) == 40 and whole.startswith(known[5])
    (link,) = (one.value for one in app.sidebar.code)
    assert f"second={whole}" in link
    assert "which is not here" in open_page(second="none such").warning[0].value
    assert not open_page(second=f" {known[5][:6].upper()}").warning
    app = open_page(kind="driver", second="58")  # only commits and runs are named so
    assert "which is not here" in app.warning[0].value


def test_what_is_typed_is_found_by_a_part_of_its_name_or_says_why_not(monkeypatch) -> None:
    import choose

    runs = {"asv-7b-py3": "2026-11-01, box", "asv-7b-py3-numpy": "2026-11-02, box"}
    told: list[str] = []
    monkeypatch.setattr(streamlit, "toast", lambda said, **_: told.append(said))

    def typed(said: str) -> str | None:
        return choose._typed("After", said, list(runs), runs.__getitem__)

    assert typed("asv-7b-py3") == "asv-7b-py3"  # a whole name, though another one begins so
    assert typed(" NUMPY") == "asv-7b-py3-numpy" and typed("11-01") == "asv-7b-py3"
    commits = ["0" * 38 + "ab", "ab" + "0" * 38]
    assert choose._typed("After", "ab", commits, lambda one: one[:8]) == commits[1]
    assert not told
    assert typed("box") is None and typed("zzz") is None
    assert "2 of them are called so" in told[0] and "zzz: none is called so" in told[1]


def test_a_run_that_is_gone_is_not_taken_for_one_whose_name_begins_so(open_page) -> None:
    whole = open_page(kind="run").selectbox(key="second").value
    app = open_page(kind="run", second=whole[:-1])
    assert "which is not here" in app.warning[0].value


def test_before_and_after_are_two(open_page) -> None:
    newest = open_page().selectbox(key="second").value
    app = open_page(first=newest[:7])  # After is another one then
    assert app.selectbox(key="first").value == newest and not app.warning
    assert app.selectbox(key="second").value != newest
    app = open_page(first=newest, second=newest)
    assert "Before and After are the same" in app.info[0].value


def test_names_are_short_where_all_are_of_one_machine() -> None:
    import derive_compare

    one = ["transfer.a[memory=pinned]@box", "transfer.a[memory=pageable]@box"]
    assert derive_compare.labels(one) == ["a memory=pinned", "a memory=pageable"]
    assert derive_compare.labels([one[0], one[0].replace("box", "b")])[1].endswith(" @b")
