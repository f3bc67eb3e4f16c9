"""`scripts/dashboard-speed`: its trees and its arguments. It measures in a browser by itself."""

import runpy
from pathlib import Path

import pytest

from hostbench.store.history import History

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script() -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return runpy.run_path(str(ROOT / "scripts/dashboard-speed"))


def test_a_tree_is_made_once_and_holds_what_its_name_says(script: dict, tmp_path: Path) -> None:
    trees = script["speed_trees"]
    few = trees.LEAST
    made = trees.many_points(tmp_path, few)
    assert made.name == f"{few}-points" and made.made() > 0
    counted = History(made.folder).runs_counted()
    asv = counted[counted["machine"].str.startswith("asv-")]
    assert asv["ok"].sum() == few and len(asv) == 2 * trees.MACHINES
    assert counted["ok"].sum() > few  # a machine of hostbench's own, too
    assert made.made() == 0

    long = trees.long_series(tmp_path, 9)
    long.made()
    found = History(long.folder)
    (machine,) = found.runs_counted()["machine"].unique()
    cases = found.series(machine)["case"]
    assert [len(found.trend(machine, case)) for case in cases] == [9, 9]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--points", "100"], "100 is too few: name at least 9400"),
        (["--long", "10001"], "name 1 to 10000"),
        (["--tree", "nowhere"], "nowhere is no folder"),
        (["--visits", "0"], "0 is too few"),
        (["--parts", "all"], "invalid choice: 'all'"),
    ],
)
def test_a_wrong_argument_is_named_with_its_limit(
    script: dict, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        script["options"](argv)
    assert said in capsys.readouterr().err


def test_a_figure_has_the_bare_apps_beside_it_and_a_missing_one_its_reason(script: dict) -> None:
    row = script["Row"]
    line = row(what="warm visit", page="Trend", value=3.0, bare=1.5, bar="2 x").line()
    assert line.split() == ["warm", "visit", "Trend", "3.00", "s", "1.50", "s", "2.00", "2", "x"]
    assert row(what="not drawn", note="not within 9 s").line().split(None, 2)[2] == "not within 9 s"
    assert script["options"]([]).trees[0].name == "small"
