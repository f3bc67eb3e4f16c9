"""What is read of NCCL's log."""

import pytest

from hostbench.device.nccl_log import choices


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..3}",
         "NVLS SIMPLE"),
        ("1026048 Bytes -> Algo 1 proto 2 time 34.693867\n4096 Bytes -> Algo 0 proto 0 time 9.1\n"
         "1026048 Bytes -> Algo 1 proto 2 time 34.693867\n", "RING SIMPLE, TREE LL"),
        ("NCCL INFO cudaDriverVersion 12080", None),
    ],
)  # fmt: skip
def test_algorithm_and_protocol_are_those_that_were_chosen(text: str, expected: str | None) -> None:
    assert choices(text) == expected
