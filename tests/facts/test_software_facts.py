"""Facts of the software, and what torch says of itself in a process of its own."""

import json
import sys

import pytest

from hostbench.facts import software, torch_probe
from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import known, unknown
from hostbench.facts.torch_probe import TorchState, probe_torch


def test_environment_values_come_from_an_allow_list():
    environ = {
        "CUDA_VISIBLE_DEVICES": "GPU-00000000-1111-2222-3333-444444444444,1",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "NCCL_TOPO_FILE": "/home/somebody/topo.xml",
        "NCCL_COMM_ID": "10.1.2.3:4000",
        "NCCL_DEBUG": "INFO",
        "SECRET": "hunter2",
    }
    group = software.software_facts(environ=environ)
    assert group["env_PYTORCH_ALLOC_CONF"] == known("expandable_segments:True")
    assert group["env_NCCL_DEBUG"] == known("INFO")
    assert group["env_OMP_NUM_THREADS"] == unknown("not set")
    assert group["env_NCCL_TOPO_FILE"].value is None
    assert group["env_NCCL_COMM_ID"].value is None
    hashed = hash_uuid("GPU-00000000-1111-2222-3333-444444444444")
    assert group["env_CUDA_VISIBLE_DEVICES"] == known(f"uuid-sha256:{hashed},1")
    text = str(group)
    assert not any(hidden in text for hidden in ("hunter2", "somebody", "10.1.2.3", "3333"))


def test_torch_is_told_or_unknown():
    assert "not imported" in (software.software_facts()["torch_cuda_runtime"].why or "")
    state = TorchState(installed=True, importable=True, cuda_runtime="13.0")
    group = software.software_facts(torch_state=state)
    assert group["torch_cuda_runtime"] == known("13.0")
    assert group["torch_nccl"] == unknown("this torch was built without it")
    failed = TorchState(installed=True, importable=False, error="libcudart is missing")
    assert software.software_facts(torch_state=failed)["torch_nccl"].why == "libcudart is missing"


def ask(code: str, **options: float) -> TorchState:
    return probe_torch(code=code, **options)  # type: ignore[arg-type]


def test_the_probe_reads_the_last_line():
    answer = {"installed": True, "importable": True, "version": "2.9", "devices": ["A"], "new": 1}
    state = ask(f"print('noise'); print({json.dumps(json.dumps(answer))})")
    assert state == TorchState(installed=True, importable=True, version="2.9", devices=("A",))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys; sys.exit('boom')", "ended with 1: boom"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with -9"),
    ],
)
def test_a_probe_that_dies_is_a_reason(code, text):
    state = ask(code)
    assert not state.importable
    assert text in (state.error or "")


def test_a_probe_that_hangs_or_cannot_start_is_a_reason():
    hung = ask("import threading; threading.Event().wait()", timeout_s=0.2)
    assert "over 0.2 s" in (hung.error or "")
    assert "cannot start" in (probe_torch(python="/no/such/python").error or "")


def test_the_probe_without_torch(tmp_path):
    hidden = "import sys; sys.modules['torch'] = None\n"
    state = ask(hidden + torch_probe._PROBE)
    assert (state.installed, state.importable) == (False, False)
    assert "torch" in (state.error or "")


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("__version__ = '2.9+cpu'\ncuda = hip = None", "2.9+cpu"),
        ("__version__ = '2.9+cu130'\ncuda, hip = '13.0', None", None),
        ("__version__ = '2.9+rocm7'\ncuda, hip = None, '7.0'", None),
        (None, None),
    ],
)
def test_on_the_cpu_a_build_for_the_cpu_is_not_imported(tmp_path, monkeypatch, says, version):
    """All else is asked, as is what a run on a GPU has; here the question cannot be put."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('nobody may')")
    if says is not None:
        (tmp_path / "torch" / "version.py").write_text(says)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    asked = TorchState(
        installed=True,
        importable=False,
        error="cannot start /no/such/python: No such file or directory",
    )
    told = TorchState(installed=True, importable=True, version=version)
    assert probe_torch("cpu", python="/no/such/python") == (told if version else asked)
    assert probe_torch("cuda", python="/no/such/python") == asked
    assert probe_torch(python="/no/such/python") == asked


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
    get_allocator_backend=lambda: "native",
    get_device_properties=lambda i: PROPERTIES,
)
sys.modules["torch"] = torch
"""


def test_the_probe_tells_devices_in_order_without_their_uuids():
    state = ask(
        FAKE_TORCH.replace("PROPERTIES", "S(uuid=['AA-1', 'bb-2'][i])") + torch_probe._PROBE
    )
    assert state.error is None
    assert state.uuid_hashes == (hash_uuid("GPU-aa-1"), hash_uuid("bb-2"))
    assert state.allocator_backend == "native"
    assert "bb-2" not in str(state)
    group = software.software_facts(torch_state=state)
    assert group["torch_allocator_backend"] == known("native")
    old = ask(FAKE_TORCH.replace("PROPERTIES", "S()") + torch_probe._PROBE)
    assert (old.uuid_hashes, old.cuda_works) == ((), True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_NODE_NAME", "gpu-node-17"),
        ("NCCL_IB_ADDR_RANGE", "10.1.2.0"),
        ("NCCL_NET_PLUGIN", "Alice-net"),
        ("NCCL_NET_PLUGIN", "myhost7.so"),
    ],
)
def test_no_value_names_a_path_a_host_or_a_user(monkeypatch, name, value):
    monkeypatch.setattr("platform.node", lambda: "myhost7.lab.example")
    found = software.software_facts(environ={name: value, "USER": "al", "LOGNAME": "alice"})
    assert found[f"env_{name}"].value is None
    assert "set" in (found[f"env_{name}"].why or "") and value not in str(found)
    kept = software.software_facts(environ={"NCCL_ALGO": "allreduce:ring", "USER": "al"})
    assert kept["env_NCCL_ALGO"] == known("allreduce:ring")
