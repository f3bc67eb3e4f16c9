"""The calibrated compute of the cuda device, with its clock made by hand."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
filler = pytest.importorskip("hostbench.device.cuda_compute")

FIXED_S, PER_DEPTH_S = 2e-6, 1e-7


def made(monkeypatch: pytest.MonkeyPatch) -> tuple[object, list[int]]:
    """A Filler on the CPU whose products take FIXED_S + depth * PER_DEPTH_S, and what it ran."""
    ran: list[int] = []
    monkeypatch.setattr(filler, "ROWS", 8)
    monkeypatch.setattr(torch, "mm", lambda left, right: ran.append(left.shape[1]))

    def seconds(step: Callable[[], None]) -> float:
        ran.clear()
        step()
        return sum(FIXED_S + depth * PER_DEPTH_S for depth in ran)

    one = filler.Filler(torch.device("cpu"), seconds)
    ran.clear()
    return one, ran


@pytest.mark.parametrize("seconds", [2.8e-6, 1e-5, 5e-5, 1.044e-4, 2e-4, 1e-3])
def test_a_compute_takes_the_time_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    one, ran = made(monkeypatch)
    one.step(seconds)()  # type: ignore[attr-defined]
    spent_s = sum(FIXED_S + depth * PER_DEPTH_S for depth in ran)
    assert abs(spent_s - seconds) <= FIXED_S + 8 * PER_DEPTH_S / 2 + 1e-12
    assert all(depth % 8 == 0 and 8 <= depth <= filler.DEPTH for depth in ran)


def test_the_shortest_compute_is_one_short_product(monkeypatch: pytest.MonkeyPatch) -> None:
    one, ran = made(monkeypatch)
    one.step(0.0)()  # type: ignore[attr-defined]
    assert ran == [8]


def test_products_run_on_real_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a product of ones: as large as its inner dimension."""
    made, real = [], torch.mm
    one = filler.Filler(torch.device("cpu"), lambda step: (step(), 1e-3)[1])
    monkeypatch.setattr(torch, "mm", lambda left, right: made.append(real(left, right)))
    one.step(2.5e-3)()
    assert [float(each.mean()) for each in made] == one.depths(2.5e-3)
