"""Which GPU is which CUDA device, by the torch probe or by CUDA_VISIBLE_DEVICES."""

import pytest

from hostbench import facts as room
from hostbench.facts.cuda_order import ORDER_UNKNOWN, cuda_indices, hash_bare
from hostbench.facts.nvml import open_nvml
from hostbench.facts.record import Value
from hostbench.facts.torch_probe import TorchState
from hostbench.testing.fake_nvml import FakeGpu, FakeNvml, library_missing

A, B = "GPU-aaaa1111-0000", "GPU-bbbb2222-0000"
M1, M2 = "MIG-cccc3333-0000", "MIG-dddd4444-0000"
PAIR = (FakeGpu(uuid=A), FakeGpu(uuid=B, mig=True, mig_uuids=(M1, M2)))
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def order(visible: str | None, *, gpus=PAIR, **environ: str) -> list[Value]:
    listed = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = cuda_indices(open_nvml(FakeNvml(gpus=gpus)), {**environ, **listed})
    return [fact.value for fact in found]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1]),
        ("1,0", [1, 0]),
        ("1", [None, 0]),
        ("1,-1,0", [None, 0]),
        ("0,7,1", [0, None]),
        (f"{B},{A}", [1, 0]),
        ("GPU-bbbb", [None, 0]),
        ("GPU-", [None, None]),
        (M2, [None, 0]),
        ("MIG-GPU-bbbb2222-0000/1/0", [None, 0]),
        ("GPU-9999,0", [None, None]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(visible, expected):
    assert order(visible, **PCI) == expected


def test_without_an_order_only_what_is_certain_is_told():
    assert order(None) == order("1,0") == [None, None]
    assert order(f"{B},{A}") == [1, 0]
    assert order(None, gpus=PAIR[:1]) == order("0", gpus=PAIR[:1]) == [0]
    facts = cuda_indices(open_nvml(FakeNvml(gpus=PAIR)), {})
    assert {fact.why for fact in facts} == {ORDER_UNKNOWN}


def test_the_probe_is_believed():
    def told(*uuids: str) -> list[Value]:
        hashes = [hash_bare(uuid) for uuid in uuids]
        return [f.value for f in cuda_indices(open_nvml(FakeNvml(gpus=PAIR)), {}, hashes)]

    assert told("bbbb2222-0000", "AAAA1111-0000") == [1, 0]
    assert told("dddd4444-0000") == [None, 0]
    assert told("eeee-0000") == [None, None]


def test_facts_know_the_order(tmp_path):
    def collected(nvml, **options):
        return room.collect(root=tmp_path, nvml=nvml, environ={}, **options)

    state = TorchState(
        installed=True, importable=True, uuid_hashes=(hash_bare(B), hash_bare(A)), cuda_works=True
    )
    gpus = (FakeGpu(uuid=A, nodes_mask=0b1), FakeGpu(uuid=B, nodes_mask=0b10))
    facts = collected(FakeNvml(gpus=gpus), torch_state=state)
    assert (facts["gpu0"]["cuda_index"].value, facts["gpu1"]["cuda_index"].value) == (1, 0)
    assert facts["host"]["numa_nodes_near_gpu"].value == "1"
    assert "aaaa1111" not in str(facts)
    none = collected(library_missing())
    assert none["host"]["numa_nodes_near_gpu"].why == "no GPU is read"
