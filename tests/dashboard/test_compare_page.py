"""The page Compare, held against `hostbench compare`."""

from pathlib import Path

import pytest
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
    app = open_page(second=known[5][:6])  # as somebody types it, too
    whole = app.selectbox(key="second").value
    assert not app.warning and len(whole) == 40 and whole.startswith(known[5])
    (link,) = (one.value for one in app.sidebar.code)
    assert f"second={whole}" in link
    assert "which is not here" in open_page(second="none such").warning[0].value
    app = open_page(kind="run", second="2")
    assert "begin: say more of it" in app.warning[0].value
    app = open_page(kind="driver", second="58")  # only commits and runs are named so
    assert "which is not here" in app.warning[0].value


def test_names_are_short_where_all_are_of_one_machine() -> None:
    import derive_compare

    one = ["transfer.a[memory=pinned]@box", "transfer.a[memory=pageable]@box"]
    assert derive_compare.labels(one) == ["a memory=pinned", "a memory=pageable"]
    assert derive_compare.labels([one[0], one[0].replace("box", "b")])[1].endswith(" @b")
