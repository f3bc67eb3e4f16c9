"""The page Machines, and the functions under it."""

from pathlib import Path

import pandas as pd
import pytest

from hostbench.report.doctor import Diagnosis
from tests import dashboard_page, dashboard_tree, vega
from tests.dashboard_page import said
from tests.dashboard_tree import CPU_MACHINE, FOREIGN, GPU_MACHINE, HOSTILE

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write(tmp_path_factory.mktemp("results"))


def test_machines_stand_side_by_side(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    app = dashboard_page.opened(monkeypatch, "machines", tree)
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table["machine"]) == [GPU_MACHINE, CPU_MACHINE, FOREIGN]
    assert table["runs"].tolist() == [9, 1, 1]
    assert "PCIe Gen5 x16" in said(app) and "No facts are stored" in said(app)
    changes = next(one.value for one in app.dataframe if "fact" in one.value)
    assert changes["since"].dt.strftime("%m-%d").tolist() == ["11-07"]
    shown = changes[["machine", "fact", "of", "from", "to"]].to_numpy().tolist()
    assert shown == [[GPU_MACHINE, "driver", "nvml", "580.1", "590.7"]]
    assert all(HOSTILE not in one.value for one in (*app.markdown, *app.caption))


def test_what_changed_is_drawn_over_the_runs_in_the_color_of_its_machine(tree: Path) -> None:
    import data
    from derive_machines import timeline
    from words import colors

    changes = data.setup_changes(tree)
    of = colors(data.machines(tree))
    drawn = timeline(data.runs(tree), changes, of)
    vega.check(drawn)
    dots, (diamond,) = (one["data"]["values"] for one in drawn["layer"])
    assert len(dots) == 9 and diamond["said"] == "driver: 580.1 -> 590.7"
    shades = drawn["layer"][1]["encoding"]["color"]["scale"]
    assert shades == {"domain": [GPU_MACHINE], "range": [of[GPU_MACHINE]]}


def test_health_is_since_when_and_the_worst(tree: Path) -> None:
    import data
    from derive_machines import health, listed

    machines = listed(data.runs(tree), pd.Timestamp("2026-11-10", tz="UTC"))
    slow = [Diagnosis("warn", "the link is x8"), Diagnosis("warn", "others"), Diagnosis("ok", "")]
    verdicts = {GPU_MACHINE: slow, CPU_MACHINE: [Diagnosis("note", "a virtual machine")]}
    found = health(machines, data.setup_changes(tree), verdicts).set_index("machine")
    assert found["torch"].tolist() == ["2.13.0", "2.13.0", ""]
    assert found["driver"].tolist() == ["590.7 since 2026-11-07", "", ""]
    assert found["doctor"].to_dict() == {
        GPU_MACHINE: "warn: the link is x8 (and 1 more)",
        CPU_MACHINE: "ok",
        FOREIGN: "no facts stored",
    }


def test_what_comes_nearest_to_its_limit(tree: Path) -> None:
    import data
    from derive_machines import limits, reached

    own = data.machine(tree, GPU_MACHINE).limits.set_index("name")
    assert own["share"].between(0, 1).all() and (own["rate"] / own["top"]).equals(own["share"])
    assert own.loc["host_to_device", "top"] == pytest.approx(57.6, rel=0.02)
    assert limits(pd.DataFrame(columns=dashboard_page_columns(tree))).empty
    over = own.reset_index().assign(share=1.2)
    layers = reached({"box": over}, {"box": "#000000"})["layer"]
    assert len(layers[1]["data"]["values"]) == 0 and len(layers[2]["data"]["values"]) == len(over)


def dashboard_page_columns(tree: Path) -> list[str]:
    import data

    run_id = data.runs(tree)["run_id"].iloc[0]
    return [str(one) for one in data.rows_of(tree, GPU_MACHINE, run_id)]


@pytest.mark.parametrize(
    ("hours", "is_stale"), [((0, 24, 48), False), ((0, 24, 30), True), ((0,), False)]
)
def test_a_machine_is_stale_after_one_and_a_half_of_its_pauses(
    hours: tuple[int, ...], is_stale: bool
) -> None:
    import derive_machines

    start = pd.Timestamp("2026-03-01", tz="UTC")
    times = pd.Series([start + pd.Timedelta(hours=one) for one in hours])
    assert derive_machines.is_stale(times, start + pd.Timedelta(hours=70)) is is_stale
    assert derive_machines.age(pd.Timedelta(hours=50)) == "2 days ago"
    assert derive_machines.age(pd.Timedelta(minutes=61)) == "1 h ago"
