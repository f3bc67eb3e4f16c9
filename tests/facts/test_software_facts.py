"""Facts of the software, and what torch says of itself in a process of its own."""

import os

import pytest

from hostbench.facts import software
from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Unknown
from hostbench.facts.software import TorchState, probe_torch

UUID = "GPU-00000000-1111-2222-3333-444444444444"


def test_the_environment_tells_what_is_set_and_names_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = {
        "NCCL_TOPO_FILE": "topo.xml",
        "NCCL_COMM_ID": "10.1.2.3:4000",
        "NCCL_NODE_NAME": "gpu-node-17",
        "KINETO_CONFIG": "/home/somebody/kineto.conf",
        "TORCH_FR_DUMP_TEMP_FILE": "/home/somebody/dump",
    }
    environ = {
        "CUDA_VISIBLE_DEVICES": f"{UUID},1",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "NCCL_ALGO": "allreduce:ring",
        "TEARDOWN_CUPTI": "1",
        "DISABLE_ADDMM_CUDA_LT": "1",
        "LD_PRELOAD": "/home/somebody/x.so",
        "SECRET": "hunter2",
    }
    monkeypatch.setattr(os, "environ", environ | others)
    group = software.software_facts()
    variables = {name: fact for name, fact in group.items() if name.startswith("env_")}
    assert variables == {
        "env_CUDA_VISIBLE_DEVICES": f"uuid-sha256:{hash_uuid(UUID)},1",
        "env_PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "env_NCCL_ALGO": "allreduce:ring",
        "env_TEARDOWN_CUPTI": "1",
        "env_DISABLE_ADDMM_CUDA_LT": "1",
        "env_LD_PRELOAD": Unknown("set to a path: not stored"),
        **{
            f"env_{name}": Unknown("set, but it may name a path or a host: not stored")
            for name in others
        },
    }
    for hidden in ("hunter2", "somebody", "10.1", "3333"):
        assert hidden not in str(group)


def test_torch_is_told_or_unknown() -> None:
    assert "not asked" in str(software.software_facts()["torch_cuda_runtime"])
    state = TorchState(installed=True, importable=True, cuda_runtime="13.0")
    group = software.software_facts(torch_state=state)
    assert group["torch_cuda_runtime"] == "13.0"
    assert isinstance(group["torch_nccl"], Unknown)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys; sys.exit('boom')", "ended with 1: boom"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with -9"),
        ("print([])", "ended with 0"),
        ("import threading; threading.Event().wait()", "over 1 s"),
        ("import sys; sys.modules['torch'] = None\n" + software._PROBE, "torch"),
    ],
)
def test_a_probe_that_goes_wrong_is_a_reason(
    code: str, text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And one that takes long says so meanwhile."""
    monkeypatch.setattr(software, "SLOW_S", 0.1 if "Event" in code else 60.0)
    monkeypatch.setattr(software, "PROBE_TIMEOUT_S", 1.0 if "Event" in code else 60.0)
    monkeypatch.setattr(software, "_PROBE", code)
    state = probe_torch()
    assert not state.importable
    assert text in (state.error or "")
    assert ("importing torch: slow the first time" in capfd.readouterr().err) == ("Event" in code)


@pytest.mark.parametrize(("version", "is_asked"), [("2.9+cpu", False), ("2.9+cu130", True)])
def test_on_the_cpu_a_build_for_the_cpu_is_not_imported(
    version: str, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is asked, as is what a run on a GPU has."""
    monkeypatch.setattr(software, "version_of", lambda _: version)
    monkeypatch.setattr(software, "_PROBE", "raise SystemExit('asked')")
    for device in ("cpu", "cuda"):
        state = probe_torch(device)
        assert ("asked" in (state.error or "")) == (is_asked or device == "cuda")


FAKE_TORCH = """
import sys, types
from types import SimpleNamespace as S
torch = types.ModuleType("torch")
torch.__version__, torch.version = "2.9.0", S(cuda="13.0")
torch.distributed = S(is_available=lambda: False)
torch.zeros = lambda *_, **__: S(add_=lambda _: S(cpu=lambda: None))
torch.cuda = S(
    device_count=lambda: 2,
    get_device_name=lambda i: "H200",
    get_device_properties=lambda i: S(uuid=["AA-1", "bb-2"][i]),
)
sys.modules["torch"] = torch
"""


def test_the_probe_tells_devices_in_order_without_their_uuids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(software, "_PROBE", FAKE_TORCH + software._PROBE)
    state = probe_torch()
    assert state.error is None
    assert state.uuid_hashes == (hash_uuid("GPU-aa-1"), hash_uuid("bb-2"))
    assert "bb-2" not in str(state)
