"""Which GPU is which CUDA device, by the torch probe."""

from hostbench import facts as room
from hostbench.facts.gpu import ORDER_UNKNOWN, cuda_indices
from hostbench.facts.nvml import hash_uuid, open_nvml
from hostbench.facts.record import Value, known, unknown
from hostbench.facts.torch_probe import TorchState
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

A, B = "GPU-aaaa1111-0000", "GPU-bbbb2222-0000"
M1, M2 = "MIG-cccc3333-0000", "MIG-dddd4444-0000"
PAIR = (FakeGpu(uuid=A), FakeGpu(uuid=B, mig=True, mig_uuids=(M1, M2)))


def test_without_the_probe_only_one_gpu_has_a_number() -> None:
    assert cuda_indices(open_nvml(FakeNvml(gpus=PAIR[:1])), ()) == [known(0)]
    assert cuda_indices(open_nvml(FakeNvml(gpus=PAIR)), ()) == [unknown(ORDER_UNKNOWN)] * 2


def test_the_probe_is_believed():
    def told(*uuids: str) -> list[Value]:
        hashes = [hash_uuid(uuid) for uuid in uuids]
        return [f.value for f in cuda_indices(open_nvml(FakeNvml(gpus=PAIR)), hashes)]

    assert told("bbbb2222-0000", "AAAA1111-0000") == [1, 0]
    assert told("dddd4444-0000") == [None, 0]
    assert told("eeee-0000") == [None, None]


def test_facts_know_the_order(tmp_path):
    def collected(nvml, **options):
        return room.collect(root=tmp_path, nvml=nvml, environ={}, **options)

    state = TorchState(
        installed=True, importable=True, uuid_hashes=(hash_uuid(B), hash_uuid(A)), cuda_works=True
    )
    gpus = (FakeGpu(uuid=A), FakeGpu(uuid=B))
    facts = collected(FakeNvml(gpus=gpus), torch_state=state)
    assert (facts["gpu0"]["cuda_index"].value, facts["gpu1"]["cuda_index"].value) == (1, 0)
    assert "aaaa1111" not in str(facts)
