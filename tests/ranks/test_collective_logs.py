"""What torch's flight recorder answers, or does not, and what is read of NCCL's log."""

import json

import pytest
from torch._C import _distributed_c10d as c10d

from hostbench.ranks.collective_logs import choices, recorded


def entry(number: int, name: str, *, is_p2p: bool = False) -> dict[str, object]:
    group = ["0", "default_pg"]
    values = {"collective_seq_id": number, "process_group": group, "profiling_name": name}
    return values | {"is_p2p": is_p2p, "state": "scheduled"}


NCCL = [entry(7, "nccl:all_reduce"), entry(7, "nccl:send 0->1", is_p2p=True)]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ({"entries": NCCL, "version": "2.10"}, {("0", 7): "all_reduce"}),
        ({"version": "2.10"}, {}),  # nothing has been called
        ({"entries": [{"name": "all_reduce"}]}, {}),  # another version
        ([1], {}),
        (None, {}),  # a torch without
    ],
)
def test_collectives_are_read_where_torch_has_them(
    monkeypatch: pytest.MonkeyPatch, answer: object, calls: dict[tuple[str, int], str]
) -> None:
    def dump(include_collectives: bool, only_active: bool) -> bytes:
        return json.dumps(answer).encode()

    monkeypatch.setattr(c10d, "_dump_nccl_trace_json", answer and dump, raising=False)
    assert recorded("nccl") == calls


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..3}",
         "NVLS SIMPLE"),
        ("1026048 Bytes -> Algo 1 proto 2 time 34.693867\n4096 Bytes -> Algo 0 proto 0 time 9.1\n"
         "1026048 Bytes -> Algo 1 proto 2 time 34.693867\n", "1 2, 0 0"),
        ("NCCL INFO cudaDriverVersion 12080", None),
    ],
)  # fmt: skip
def test_algorithm_and_protocol_are_those_that_were_chosen(text: str, expected: str | None) -> None:
    assert choices(text) == expected
