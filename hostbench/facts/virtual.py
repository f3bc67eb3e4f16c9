"""Is this a virtual machine, and is this a container? Hints that the kernel shows, in words."""

from pathlib import Path

from hostbench.facts.files import read_fields, read_text
from hostbench.facts.record import Fact, known, unknown

_VENDORS = (
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("Amazon EC2", "amazon-ec2"),
    ("Google", "google"),
    ("VMware", "vmware"),
    ("innotek", "virtualbox"),
    ("Xen", "xen"),
    ("OpenStack", "openstack"),
    ("Virtual Machine", "hyper-v"),
)
"""What the firmware's vendor and product contain, and the word for it. Nothing else is stored."""

_CGROUP_HINTS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
)


def virtualized(root: Path) -> Fact:
    """True or False on x86, where the CPU says so; elsewhere True where the firmware names one."""
    fields = read_fields(root / "proc/cpuinfo")
    if "flags" in fields:
        return known("hypervisor" in fields["flags"].split())
    if hypervisor(root).value is not None:
        return known(True)
    return unknown("this CPU does not tell")


def hypervisor(root: Path) -> Fact:
    """Who runs the virtual machine, where that can be read."""
    xen = read_text(root / "sys/hypervisor/type")
    if xen:
        return known(xen)
    if "microsoft" in (read_text(root / "proc/sys/kernel/osrelease") or "").lower():
        return known("wsl")
    if "hypervisor" not in read_fields(root / "proc/cpuinfo").get("flags", "hypervisor").split():
        return unknown("not a virtual machine")
    firmware = root / "sys/class/dmi/id"
    text = f"{read_text(firmware / 'sys_vendor')} {read_text(firmware / 'product_name')}"
    for hint, word in _VENDORS:
        if hint in text and "metal" not in text:
            return known(word)
    return unknown("nothing names it")


def container(root: Path) -> Fact:
    """The container's kind, or "none seen"."""
    if (root / "var/run/secrets/kubernetes.io").exists():
        return known("kubernetes")
    if (root / "run/.containerenv").exists():
        return known("podman")
    cgroups = read_text(root / "proc/1/cgroup") or ""
    for hint, word in _CGROUP_HINTS:
        if hint in cgroups:
            return known(word)
    return known("docker" if (root / ".dockerenv").exists() else "none seen")
