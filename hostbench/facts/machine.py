"""The machine's name, and its entry in asv's list of machines."""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from hostbench.core.errors import UsageError
from hostbench.core.units import GIB
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of

MAX_NAME = 64

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NOISE = re.compile(
    r"\(r\)|\(tm\)|@.*$|\b\d+-core\b|\b(?:amd|intel|cpu|processor|genuine)\b|\bwith\b.*$",
    re.IGNORECASE,
)


def machine_name(override: str | None, facts: Facts) -> str:
    """`--machine`, else HOSTBENCH_MACHINE, else a name built from the hardware. Raises UsageError
    where the chosen name cannot be a folder of results."""
    if override is not None:
        return checked_name(override, "--machine")
    if given := os.environ.get("HOSTBENCH_MACHINE"):
        return checked_name(given, "HOSTBENCH_MACHINE")
    if models := _gpu_models(facts):
        name = "-".join(f"{count}x-{_slug(model)}" for model, count in sorted(models.items()))
        return name[:MAX_NAME].rstrip("-")
    cores = number_of(facts, "host", "num_usable_cores")
    ending = f"-{cores:.0f}c" if cores else ""
    model = _slug(_NOISE.sub(" ", text_of(facts, "host", "cpu_model") or "")) or "unknown"
    return f"cpu-{model}"[: MAX_NAME - len(ending)].rstrip("-") + ending


def name_of_hosts(hosts: Iterable[tuple[int, str]]) -> str:
    """`2x8x-nvidia-h100`: hosts, ranks on each, and the model, one after the other where they
    differ; of the number of ranks and the machine's own name of each host."""
    kinds = Counter((num_ranks, re.sub(r"^\d+x-", "", name)) for num_ranks, name in hosts)
    names = [f"{num}x{num_ranks}x-{model}" for (num_ranks, model), num in sorted(kinds.items())]
    return "-".join(names)[:MAX_NAME].rstrip("-.")


def checked_name(name: str, source: str) -> str:
    """The name itself. Raises UsageError with the value, the limit and the remedy."""
    if len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return name
    raise UsageError(
        f"{source} {name!r} cannot name a machine: use 1 to {MAX_NAME} letters, digits, dots, "
        "dashes and underscores, not starting with a dot, as in 1x-nvidia-h200"
    )


def asv_machine_entry(name: str, facts: Facts) -> dict[str, str]:
    """asv's facts of a machine, as text: only what never changes of itself, since asv starts a new
    line in its graphs when one of them differs."""
    cores = number_of(facts, "host", "num_logical_cores")
    entry = {
        "machine": name,
        "os": text_of(facts, "host", "os") or "unknown",
        "arch": text_of(facts, "host", "arch") or "unknown",
        "cpu": text_of(facts, "host", "cpu_model") or "unknown",
        "num_cpu": f"{cores:.0f}" if cores else "unknown",
        "ram": "unknown",
    }
    if nbytes := number_of(facts, "host", "memory_bytes"):
        # What the kernel reports is a little less than is installed, and differs between kernels.
        gib = nbytes / GIB
        step = max(1, 2 ** (math.floor(math.log2(gib)) - 4)) if gib >= 1 else 1
        entry["ram"] = f"{math.ceil(gib / step) * step} GiB"
    models = _gpu_models(facts)
    if models:
        entry["gpu"] = ", ".join(sorted(models))
        entry["num_gpu"] = str(models.total())
    return entry


def machine_of_asv(asked: str | None) -> str:
    """How asv calls this machine, and the folder of its files, where `asked` is its --machine."""
    from asv import machine, util

    name: str = asked or machine.Machine.get_unique_machine_name()
    try:
        return str(machine.MachineCollection.load(name)["machine"])
    except util.UserError:
        return name


def register_with_asv(entry: Mapping[str, str]) -> None:
    """Add or replace this machine in ~/.asv-machine.json, by asv itself; other entries stay as they
    are. Raises UsageError where asv cannot read or write the file."""
    from asv.machine import MachineCollection
    from asv.util import UserError, load_json

    target = Path(MachineCollection.get_machine_file_path())
    try:
        known = load_json(str(target), MachineCollection.api_version) if target.exists() else {}
        if known.get(entry["machine"]) != entry:
            MachineCollection.save(entry["machine"], dict(entry))
    except (OSError, UserError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"asv's machine file {target} cannot be read ({error}): correct it or move it away"
        ) from error


def _gpu_models(facts: Facts) -> Counter[str]:
    return Counter(text_of(facts, group, "name") or "NVIDIA GPU" for group in gpu_groups(facts))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
