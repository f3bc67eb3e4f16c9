"""What the pages Transfer and Overlap derive and draw, held against the simulated device."""

import ast
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from hostbench.store import archive, frame, peers
from hostbench.testing.builders import run, simulated_records
from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import APP
from tests.dashboard_tree import GPU_MACHINE

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("simulated")
    records = [*simulated_records("transfer", launches=1), *simulated_records("overlap")]
    archive.write(folder, run(records, launches=2, device="simulated"))
    return frame.read(folder).frame


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("toy")
    tree = frame.read(dashboard_tree.write(folder)).frame
    return tree[tree["machine"] == GPU_MACHINE]


def of_family(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    import derive

    return derive.of_family(rows, family)


def plain(rows: pd.DataFrame, workload: str = "transfer.host_to_device") -> pd.DataFrame:
    import derive

    return derive.copies(rows[rows["workload"] == workload])


def drawn(chart: Any) -> str:
    return str(chart.to_dict())


def test_the_line_is_the_simulated_links(rows: pd.DataFrame) -> None:
    import derive_transfer

    found = derive_transfer.line(plain(rows))
    assert found is not None and found.mode == "pinned, non_blocking"
    assert found.fit.latency_s == pytest.approx(10e-6, rel=1e-3)
    assert found.half["nbytes"].tolist() == [pytest.approx(500_000, rel=1e-3)]
    assert found.half["gb_per_s"].tolist() == [pytest.approx(25, rel=1e-3)]
    assert found.curve["gb_per_s"].is_monotonic_increasing


def test_a_refused_line_draws_nothing(rows: pd.DataFrame) -> None:
    import derive_transfer

    found = plain(rows)
    few = found[found["nbytes"] <= 4096]
    line = derive_transfer.line(few)
    assert line is not None and line.fit.refused
    assert line.curve.empty and line.half.empty
    assert derive_transfer.line(few[few["status"] == "failed"]) is None


def test_the_rate_is_held_against_ceiling_band_and_peers(toy: pd.DataFrame) -> None:
    import charts
    import charts_transfer
    import derive_transfer

    others = toy[toy["source"].isin(peers.SOURCES) & toy["gb_per_s"].notna()]
    others = others[others["workload"] == "transfer.host_to_device"]
    newest = toy[toy["run_id"] == peers.ours(toy)["run_id"].iloc[-1]]
    found = plain(newest)
    limits = derive_transfer.limits_of(found)
    assert limits.ceiling_gb_per_s == pytest.approx(57.6, abs=0.1)
    assert (limits.low_gb_per_s, limits.high_gb_per_s) == (44.0, 47.5)
    top = derive_transfer.top_rate(found, others)
    assert top == pytest.approx(1.08 * limits.ceiling_gb_per_s)
    line = derive_transfer.line(found)
    chart = charts_transfer.rate(found, others, limits, line, "title", ["about"], top)
    text = drawn(chart)
    for part in ("'low': 44.0", "n1/2", "nvbandwidth", charts_transfer.STAR):
        assert part in text
    assert charts.CROSS in text  # the struck-out copy
    far = derive_transfer.Limits(
        ceiling_gb_per_s=900.0,
        ceiling="C2C",
        low_gb_per_s=math.nan,
        high_gb_per_s=math.nan,
        published="",
    )
    chart = charts_transfer.rate(found, others, far, None, "t", ["a"], top)
    assert "{'gb_per_s': 900.0}" not in drawn(chart)
    near = replace(far, ceiling_gb_per_s=40.5)
    chart = charts_transfer.rate(found, others, near, None, "t", ["a"], top)
    assert "{'gb_per_s': 40.5}" in drawn(chart)
    assert far.words == ["Ceiling: 900 GB/s, C2C."]


def test_every_other_way_has_its_bars(rows: pd.DataFrame) -> None:
    import charts_transfer
    import derive_transfer

    rows = of_family(rows, "transfer")
    for workload in derive_transfer.WAYS:
        found = derive_transfer.ways(rows, workload)
        assert len(found) and found["lane"].is_unique, workload
        drawn(charts_transfer.bars(found, "title", ["about"]))
    many = derive_transfer.ways(rows, "transfer.many_tensors")
    assert many["lane"].iloc[0] == "1 tensor, pageable, non_blocking"
    assert set(many["nbytes"]) == {1000 << 16}
    inside = derive_transfer.ways(rows, "transfer.on_device")
    assert inside["lane"].tolist() == ["64 KiB", "1 MiB", "16 MiB", "64 MiB"]


def test_conversions_tell_what_was_observed(rows: pd.DataFrame) -> None:
    import derive_transfer

    found = derive_transfer.conversions(of_family(rows, "transfer"))
    assert len(found) == 32
    cast = found[(found["what"] == "cast") & (found["call"] == "blocking")]
    cast = cast[(cast["direction"] == "h2d") & (cast["memory"] == "pinned")]
    assert cast["observed"].tolist() == [
        "1 x H2D pageable, 512 KiB in all",
        "1 x H2D pageable, 8 MiB in all",
    ]
    assert cast["in words"].str.startswith("half of the bytes cross, cast before the link").all()


def test_the_ratio_the_orderings_and_the_round_trip(rows: pd.DataFrame, toy: pd.DataFrame) -> None:
    import charts_loops
    import derive_loops

    loops = of_family(rows, "overlap")
    swept = derive_loops.ratios(loops)
    assert swept["ratio"].tolist() == ["1:4", "1:2", "1:1", "2:1", "4:1"]
    assert swept["share"].tolist() == pytest.approx([1.0] * 5, abs=0.01)
    assert swept.nlargest(1, "saved")["ratio"].tolist() == ["1:1"]
    drawn(charts_loops.ratio(swept, "title", ["about"]))
    drawn(charts_loops.ratio(swept.assign(share=math.nan), "title", ["about"]))

    (one,) = derive_loops.trips(loops)
    assert one.known is not None
    assert one.words[0] == "Against the ideal of 1 copy engine: the loop beats it."
    assert one.words[-1].startswith("The device behaves as with two copy engines")
    text = drawn(charts_loops.round_trip(one, "title", ["about"]))
    assert "Dashed green: ideal of 2 copy engines" in text
    assert "Dotted pink: ideal of 1 copy engine," in text

    newest = toy[toy["run_id"] == peers.ours(toy)["run_id"].iloc[-1]]
    ways = derive_loops.orderings(of_family(newest, "overlap"))
    assert ways["ordering"].tolist()[:2] == ["events", "record_stream"]
    assert ways["peak_mib"].tolist() == [64.0, 256.0, 64.0, 64.0]
    chart = charts_loops.bars(ways, "peak_mib", "MiB", "said_peak", "title", ["about"])
    assert "256 MiB" in drawn(chart)


def test_odd_values_break_no_chart(rows: pd.DataFrame) -> None:
    import charts_loops
    import derive_loops
    import derive_transfer

    loops = of_family(rows, "overlap").assign(launches="3", peak_memory_bytes="much", findings=7)
    assert derive_loops.ratios(loops)["share"].isna().all()
    (one,) = derive_loops.trips(loops)
    assert "no launch holds all parts" in one.words[-1]
    drawn(charts_loops.round_trip(one, "title", ["about"]))
    assert derive_loops.orderings(loops)["said_peak"].tolist() == ["not known"] * 4
    nothing = of_family(rows, "transfer").assign(findings=None)
    assert set(derive_transfer.conversions(nothing)["observed"]) == {"not observed"}
    gone = loops.assign(seconds=math.nan, status="failed")
    assert derive_loops.trips(gone) == []
    assert derive_loops.ratios(gone).empty and derive_loops.orderings(gone).empty


def test_a_wide_interval_does_not_squash_the_bars(rows: pd.DataFrame) -> None:
    import charts_overlap
    import derive_overlap

    loops = of_family(rows, "overlap")
    found = derive_overlap.pipelines(loops[loops["workload"] == "overlap.pipeline"])
    group = derive_overlap.groups(found)[0]
    is_serial = group.rows["schedule"] == "serial"
    group.rows.loc[is_serial, ["ci_low_s", "ci_high_s"]] = [1e-4, 12.0]
    group.rows.loc[is_serial, "interval"] = "100 us to 12 s"
    names = list(group.rows["schedule"])
    chart = charts_overlap.bars(group, names, "title", ["about"]).to_dict()
    top = 1.4 * group.rows["seconds"].max()
    (data,) = [d for d in chart["datasets"].values() if d and "lane" in d[0] and "low" in d[0]]
    assert max(row["high"] for row in data if row["high"]) == pytest.approx(0.8 * top)
    assert [row["said"] for row in data if "12 s" in row["said"]] == ["1.02 ms\n100 us to 12 s"]


def test_no_bare_text_in_a_view() -> None:
    """Streamlit shows every expression that stands alone, also a text under a constant."""
    for path in (APP / "views").glob("*.py"):
        _, *rest = ast.parse(path.read_text()).body
        bare = [node.lineno for node in rest if isinstance(node, ast.Expr) and _is_text(node)]
        assert not bare, f"{path.name}:{bare}"


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant)
