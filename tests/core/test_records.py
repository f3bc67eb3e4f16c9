"""Records come back as they were; wrong types in one are damage of its file, and no more."""

import copy
import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from hostbench.core.records import (
    Done,
    Exited,
    FactsLine,
    Launch,
    Measurement,
    Process,
    Settings,
    Started,
    decoded,
    encoded,
)
from hostbench.core.samples import quantile
from hostbench.store import archive
from tests.fakes.builders import copy_case, record, run

ROOT = Path(__file__).parent.parent.parent

GOOD = run([record(copy_case())], launches=1)
FILE = Path("shelf/runs/x.json.gz")


def put(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


CASE = copy_case()
WHOLE = Measurement(
    end_to_end_s=(0.5, 1e-300),
    call_s=(0.25,),
    num_steps=2**63 - 1,
    findings={"hidden": True, "share": 0.5, "kind": "DMA \u2028", "lines": None},
    proofs={"data": "passed", "bytes": "failed: 3"},
    memory={"peak": 1 << 40},
    ranks={"0": 0.5},
    sent={"all_reduce": 4096},
)


@pytest.mark.parametrize(
    "one",
    [
        Launch(number=-1, settings=Settings(budget_s=1.0), deadline_s=9.0, cases=(CASE,)),
        Process(pid=7, hostbench="1.0"),
        Started(record=record(CASE), opening="cuda"),
        Done(record=record(CASE, measurement=WHOLE)),
        Exited(status=-9),
        FactsLine(when="after", facts={"host": {"cpus": 2, "name": None, "load": 0.5}}),
        record(CASE, measurement=WHOLE),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_record_comes_back_as_it_was(one: Struct) -> None:
    """Those that are stored: also below, from archives."""
    assert decoded(encoded(one), type(one)) == one


def test_a_number_that_is_none_comes_back() -> None:
    """As the standard library writes it; msgspec's JSON would write null."""
    line = encoded(Measurement(findings={"share": math.nan, "factor": math.inf}))
    assert b"NaN" in line and b"Infinity" in line
    found = decoded(line, Measurement).findings
    assert math.isnan(float(str(found["share"]))) and found["factor"] == math.inf


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results").glob("*/runs/*.json.gz")), ids=lambda p: p.name
)
def test_what_is_stored_says_the_same_when_it_is_written_again(path: Path) -> None:
    data = json.loads(gzip.decompress(path.read_bytes()))["hostbench"]
    for name in ("resumes", "seed"):  # which nothing reads
        data["header"].pop(name, None)
    data.pop("asv_rows", None)  # nor names the same points in asv's files
    again = json.loads(encoded(archive.read(path)))
    again["header"] = {key: again["header"][key] for key in data["header"]}
    fields = set(Measurement.__struct_fields__)
    for record_ in data["records"]:  # what a measurement does not have is written no more
        kept = {key: value for key, value in record_["measurement"].items() if value}
        record_["measurement"] = {key: kept[key] for key in kept.keys() & fields}
        record_.pop("position", None)
    assert again == data


def test_of_a_launchs_samples_five_quantiles_stay_of_which_the_middle_is_the_median() -> None:
    samples = [0.1 + 0.001 * (n * n % 17) for n in range(12)]
    thinned = Measurement(end_to_end_s=tuple(samples), call_s=(1 / 3,) * 5).thinned()
    middle = [quantile(samples, share) for share in (0.25, 0.5, 0.75)]
    assert thinned.end_to_end_s == pytest.approx([min(samples), *middle, max(samples)], rel=1e-6)
    assert thinned.call_s == (0.3333333,) * 5 and thinned.device_s == ()


def test_a_launch_that_was_disturbed_more_than_the_others_is_told() -> None:
    """What a case does to itself is in all of them."""
    records = [
        record(
            copy_case(memory),
            n,
            measurement=Measurement(
                noise={"seconds": 1.0, "waiting_s": 0.5, "steal_s": 0.3 * (n == 2), "switches": n}
            ),
        )
        for n in range(8)
        for memory in ("pageable", "pinned")
    ]
    (text,) = run(records).disturbed_launches()
    assert text == (
        "launch 3 was disturbed: the hypervisor took a core for 30% of the time, usually 0%"
    )
    assert run(records[:4]).disturbed_launches() == []
