"""Cases and selectors: one syntax, read everywhere the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core.case import Case, parse_selector, parse_series, read_case
from hostbench.core.errors import UsageError
from hostbench.families import load
from tests.conftest import ODD
from tests.fakes.builders import copy_case, create_case

CASE = copy_case(nbytes=65536, memory="pageable", blocking=False)
TEXT = "transfer.host_to_device[device=cpu,nbytes=65536,memory=pageable,blocking=False]"


def selects(text: str, case: Case = CASE) -> bool:
    return parse_selector(text).selects(case)


SELECTS = [
    *(TEXT, "transfer", "transfer.host_to_device", "transfer[]", "transfer[memory=pageable]"),
    "transfer.host_to_device[ memory = pageable , nbytes = 64KiB ]",
    *("transfer[nbytes=64KiB]", "transfer[blocking=false]", "transfer[memory=Pageable]"),
    "transfer[blocking=False,device=cpu]",
]
SELECTS_NOT = [
    *("allocation", "transfer.device_to_host", "host_to_device", "transfer[memory=pinned]"),
    *("transfer[nbytes=64MiB]", "transfer[nbytes=infKiB]", "transfer[blocking=0]"),
    *("transfer[fill=zeros]", "transfer[memory=pageable,blocking=True]"),
]


def test_what_selects_and_what_does_not() -> None:
    assert [text for text in SELECTS + SELECTS_NOT if selects(text)] == SELECTS


@pytest.mark.parametrize(
    "text",
    [
        *("", "[device=cpu]", "transfer[", "transfer]", "transfer[a=[1]]"),
        *("transfer[memory]", "transfer[device=cpu,memory]", "transfer[a=1]x"),
    ],
)
def test_what_cannot_be_read_names_value_and_remedy(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selector(text)
    message = str(caught.value)
    assert repr(text) in message
    assert "axis=value" in message
    assert "\n" not in message


def test_every_case_selects_itself_and_no_other() -> None:
    every = [case for work in load().values() for case in work.cases()]
    for case in every:
        selector = parse_selector(str(case))
        assert [other for other in every if selector.selects(other)] == [case]


def test_true_is_not_one() -> None:
    assert not selects("transfer[blocking=1]", copy_case(blocking=True))
    assert not selects("x.y[n=True]", Case("x.y", {"n": 1}))


@given(st.text(ODD, max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except UsageError:
        return
    assert selector.text == text
    assert selector.selects(create_case()) in (True, False)


@pytest.mark.parametrize(
    ("text", "series"),
    [
        ("transfer@box", f"{TEXT}@box"),
        ("transfer.host_to_device[nbytes=64KiB,blocking=false]@box", f"{TEXT}@box"),
        (f"{TEXT}@box/conda-py3.11", f"{TEXT}@box/conda-py3.11"),
        ("sorting.Sorting.time_sort[n=100]", "sorting.Sorting.time_sort[n=100,order=random]@a"),
    ],
)
def test_series_that_are_selected(text: str, series: str) -> None:
    selector = parse_series(text)
    assert selector.selects_series(series)
    assert not selector.selects_series("other.thing[nbytes=1]@box")
    if selector.machine:
        assert not selector.selects_series(series + "2")


@pytest.mark.parametrize("text", ["", "@box", "transfer@", "transfer[a]@box", "a[b=1]@c@d", "a["])
def test_series_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        parse_series(text)


def test_a_stored_case_is_read_back() -> None:
    assert str(CASE) == TEXT and read_case(TEXT) == CASE
    assert read_case("a.b[x=-3,y=007,z=" + "9" * 30 + "]") == Case(
        "a.b", {"x": -3, "y": 7, "z": "9" * 30}
    )
    assert read_case("a[b]") is None and read_case("a[b=[1]]") is None
    assert read_case("a.b[x=the version 2]") == Case("a.b", {"x": "the version 2"})
    assert parse_series("a.b[x=1] version 2@box").machine == "box"
