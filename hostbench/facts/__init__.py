"""Facts: what is true of hardware and software while something is measured.

Importing this imports none of torch, numpy and pynvml.
"""

from pathlib import Path
from typing import Any

from hostbench.facts.gpu import hidden_by_user as hidden_by_user
from hostbench.facts.gpu import nvidia_hardware as nvidia_hardware
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.machine import asv_machine_entry as asv_machine_entry
from hostbench.facts.machine import machine_name as machine_name
from hostbench.facts.machine import machine_of_asv as machine_of_asv
from hostbench.facts.machine import register_with_asv as register_with_asv
from hostbench.facts.record import NO_VALUE
from hostbench.facts.record import Facts as Facts
from hostbench.facts.software import TorchState, software_facts
from hostbench.facts.software import probe_torch as probe_torch
from hostbench.facts.spec import rows_of
from hostbench.facts.watch import watching as watching


def collect(
    root: Path = Path("/"), nvml: Any = None, *, torch_state: TorchState | None = None
) -> Facts:
    """All facts of now. GPUs that the user hid are left out, with the reason under `nvml`. `root`
    stands in for / in tests, and `nvml` for pynvml."""
    host = {
        row.name: NO_VALUE if (value := row.read(root)) is None else value
        for row in rows_of("host")
        if callable(row.read)
    }
    hashes = torch_state.uuid_hashes if torch_state else ()
    return {
        "host": host,
        "software": software_facts(torch_state),
        **nvml_facts(nvml, root=root, uuid_hashes=hashes, hidden=hidden_by_user()),
    }
