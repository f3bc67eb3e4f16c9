"""What somebody may have meant: one helper for every name."""

import pytest

from hostbench.core.case import AxisValue, parse_selector
from hostbench.core.suggest import why_no_case

AXES: dict[str, dict[str, tuple[AxisValue, ...]]] = {
    "transfer.up": {
        "device": ("cuda", "cpu"),
        "nbytes": (1024, 1 << 20, 1 << 24),
        "blocking": (True,),
    },
    "overlap.loop": {"device": ("cuda",), "schedule": ("serial",)},
}


@pytest.mark.parametrize(
    ("selector", "wrong", "meant"),
    [
        ("transfr", "transfr", "transfer"),
        ("transfer[blokcing=True]", "blokcing", "blocking"),
        ("overlap.loop[blocking=True]", "blocking", None),
        ("transfer[nbytes=16MB]", "16MB", None),
        ("transfer[device=gpu]", "gpu", "cuda"),
        ("transfer[device=cpu,blocking=true,nbytes=1KiB]", None, None),
    ],
)
def test_the_wrong_word_is_named(selector: str, wrong: str | None, meant: str | None) -> None:
    said = why_no_case(parse_selector(selector), AXES)
    assert repr(wrong) in said if wrong else said == "no case has all of these values"
    assert (f"did you mean {meant!r}?" in said) is (meant is not None)


def test_the_choices_are_named() -> None:
    assert why_no_case(parse_selector("transfer.up[nbytes=9]"), AXES).endswith(
        "is never '9'; it is 1KiB, 1MiB, 16MiB"
    )
    counts = {"loading.read": {"device": ("cpu",), "num_files": (1024, 4096)}}
    assert why_no_case(parse_selector("loading[num_files=9]"), counts).endswith("it is 1024, 4096")
    assert why_no_case(parse_selector("transfer.up[size=9]"), AXES).endswith(
        "it has device, nbytes, blocking"
    )
