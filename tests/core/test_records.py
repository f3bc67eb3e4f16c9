"""Records come back as they were; wrong types in one are damage of its file, and no more."""

import gzip
import json
import math
from pathlib import Path

import pytest
from msgspec import convert

from hostbench.core.records import Measurement, encoded
from hostbench.core.samples import quantile
from hostbench.store import archive
from tests.fakes.builders import copy_case, record, run

ROOT = Path(__file__).parent.parent.parent


def test_a_number_that_is_none_comes_back() -> None:
    """As the standard library writes it; msgspec's JSON would write null."""
    line = encoded(Measurement(findings={"share": math.nan, "factor": math.inf}))
    assert b"NaN" in line and b"Infinity" in line
    found = convert(json.loads(line), Measurement).findings
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
