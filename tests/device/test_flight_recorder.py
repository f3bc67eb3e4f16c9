"""What torch's flight recorder answers, and that nothing is answered where it does not."""

import json

import pytest
from torch._C import _distributed_c10d as c10d

from hostbench.device.flight_recorder import recorded


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
