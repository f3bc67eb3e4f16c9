"""Which errors end a worker, and what is said of failures of NCCL and gloo: their own words."""

from typing import Any

import pytest

from hostbench.core.errors import CollectiveError, Unavailable, fatal_reason, in_words

torch = pytest.importorskip("torch")
rank = pytest.importorskip("hostbench.ranks.rank")


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "out of memory"),
        (MemoryError(), "out of memory: MemoryError"),
        (RuntimeError("CUDA error: an illegal memory access\nmore"), "CUDA error"),
        (RuntimeError("CUDNN_STATUS_EXECUTION_FAILED"), "CUDA error"),
        (chained(ValueError("wrapped"), RuntimeError("CUDA error: assert")), "CUDA error"),
        (ValueError("CUDA error in a text that is not torch's"), "None"),
        (Unavailable("this machine has no pinned memory"), "None"),
        (RuntimeError("The size of tensor a (3) must match"), "None"),
    ],
)
def test_errors_that_end_a_worker_have_a_reason(error: BaseException, start: str) -> None:
    reason = str(fatal_reason(error))
    assert reason.startswith(start)
    assert "\n" not in reason


# ---- NCCL and gloo

HEAD = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, "
SYSTEM = (
    f"{HEAD}unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.29.7\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
    "error. \nLast error:\n"
)
SEGMENT = "Error while creating shared memory segment /dev/shm/nccl-AbCdEf (size 9637888)"
REMEDY = "; start the container with --shm-size=1g or --ipc=host"


def raised(text: str) -> Exception:
    error: Exception = torch.distributed.DistBackendError(text)
    return error


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{SYSTEM}{SEGMENT}", f"NCCL: {SEGMENT}{REMEDY}"),
        (f"{HEAD}invalid\nusage", f"NCCL: {HEAD}invalid usage"),
        (f"{HEAD}invalid usage\nLast error:\n", f"NCCL: {HEAD}invalid usage Last error:"),
    ],
)
def test_nccl_speaks_for_itself(text: str, reason: str) -> None:
    assert fatal_reason(raised(text)) == reason


def test_it_comes_through_a_rank_whole() -> None:
    """Behind the collective's own error."""

    class Rank:
        work = None

        def iterate(self) -> None:
            try:
                raise raised(f"{SYSTEM}{SEGMENT}")
            except Exception as error:
                raise CollectiveError(str(error)) from error

    reply: Any = rank.obey(Rank(), "iterate", ())
    assert reply.by_others
    assert reply.text.endswith(SEGMENT + REMEDY)
    assert "CUDA error" not in reply.text and "NCCLUtils" not in reply.text


def test_gloo_speaks_without_the_path_of_its_build() -> None:
    said = "ifa != nullptr. Unable to find address for: eth7"
    error = RuntimeError(f"[enforce fail at /__w/gloo/transport/tcp/device.cc:84] {said}")
    assert in_words(error, " (bench/steps.py:12)") == f"RuntimeError: {said} (bench/steps.py:12)"
