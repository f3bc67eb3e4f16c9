"""A throwaway checkout: a git repository with this tree's code, to commit in and to run asv on."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).parent.parent
_CODE = ("hostbench", "benchmarks", "dashboard", "asv.conf.json", "pyproject.toml", "setup.py")
_PAPERS = ("README.md", "LICENSE", "constraints.txt")
TRANSFER = "benchmarks/transfer.py"
TWO_COPIES = '''
"""transfer: two plain copies stand for the family, whatever the real one becomes."""

from hostbench import DEVICES, KIB, MIB, suite, workload


def setup_cache():
    return suite.measure("transfer")


SIZES = (64 * KIB, MIB)
AXES = {
    "device": DEVICES,
    "nbytes": SIZES,
    "memory": ("pageable",),
    "blocking": (True, False),
}


@workload(axes=AXES, version="1")
def host_to_device(device, nbytes, memory, blocking):
    """One copy to the device."""
    source = device.host_buffer(nbytes, pinned=memory == "pinned")
    target = device.buffer(nbytes)
    return lambda: device.copy(target, source, blocking=blocking)


@workload(axes=AXES, version="1")
def device_to_host(device, nbytes, memory, blocking):
    """One copy from the device."""
    source = device.buffer(nbytes)
    target = device.host_buffer(nbytes, pinned=memory == "pinned")
    return lambda: device.copy(target, source, blocking=blocking)
'''


def put(path: Path, text: str = "") -> None:
    """A file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(root: Path, *args: str, **environ: str) -> str:
    """What git prints in that folder, by somebody whose name it knows."""
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    quick = ("-c", "maintenance.auto=false")  # else each commit starts one process more
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | environ
    command = ["git", *identity, *quick, *args]
    done = subprocess.run(command, cwd=root, env=env, text=True, capture_output=True, check=True)
    return done.stdout.strip()


@dataclass(frozen=True)
class Scratch:
    """`root` is the checkout, `home` stands for the user's home folder."""

    root: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.root / "results"

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text that must be there, once."""
        path = self.root / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
        path.write_text(text.replace(old, new))

    def set_number(self, name: str, left: str, number: float) -> None:
        """Give what stands left of `=` another number, whatever it is now."""
        path = self.root / name
        pattern = rf"^(\s*{re.escape(left)} = )[\d.]+$"
        text, num = re.subn(pattern, rf"\g<1>{number}", path.read_text(), flags=re.M)
        assert num == 1, f"{left!r} is set {num} times in {name}"
        path.write_text(text)

    def plain_copies(self) -> None:
        """Two short workloads stand for the family `transfer`: asv's tests need no more."""
        (self.root / TRANSFER).write_text(TWO_COPIES)

    def without_torch(self) -> None:
        """The cases of `cpu` run on the simulated device: what measures them imports no torch."""
        self.edit("hostbench/runner/plan.py", "device=self.device_override,", 'device="simulated",')

    def only_families(self, *names: str) -> None:
        """Leave these families."""
        for path in (self.root / "benchmarks").glob("[a-z]*.py"):
            if path.stem not in names:
                path.unlink()

    def keep_bytecode(self) -> None:
        """No file is edited from here on: each process need not compile all of them."""
        self.environ["PYTHONDONTWRITEBYTECODE"] = ""

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *args: str) -> str:
        return git(self.root, *args, HOME=str(self.home))

    def env(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HOSTBENCH_", "GIT_"))}
        # A file that changes twice in a second and keeps its size would be read from an old .pyc.
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
        return {**kept, "HOME": str(self.home), **self.environ, **more}

    def python(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run this interpreter in the checkout; stdout and stderr together."""
        running = self.start(*args, **more)
        said, _ = running.communicate(timeout=1200)
        return subprocess.CompletedProcess(running.args, running.returncode, said)

    def start(self, *args: str, **more: str) -> subprocess.Popen[str]:
        """The same in the background."""
        return subprocess.Popen(
            [sys.executable, *args],
            cwd=self.root,
            env=self.env(**more),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    def asv(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "asv", *args, **more)

    def processes(self) -> list[str]:
        """Command lines of live processes that belong to the checkout."""
        lines = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                home = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and f"HOME={self.home}".encode() in home.split(b"\0"):
                    lines.append(line.decode(errors="replace"))
        return lines

    def wait_for_no_process(self) -> list[str]:
        """Those that still run after ten seconds."""
        for _ in range(200):
            if not self.processes():
                return []
            time.sleep(0.05)
        return self.processes()

    def hostbench(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "hostbench", *args, **more)


def make(folder: Path) -> Scratch:
    """A checkout in `folder` with nothing committed yet, and an asv machine called `scratch`."""
    root, home = folder / "checkout", folder / "home"
    root.mkdir(parents=True)
    home.mkdir()
    ignore = shutil.ignore_patterns("*.pyc.*")  # bytecode comes along, but what is being written
    for name in _CODE:
        source = TREE / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=ignore)
        else:
            shutil.copy(source, root / name)
    for name in _PAPERS:
        shutil.copy(TREE / name, root / name)
    (root / ".gitignore").write_text("__pycache__/\n.asv/\nbuild/\n*.egg-info/\nresults/\n")
    (home / ".asv-machine.json").write_text(
        '{"scratch": {"machine": "scratch", "os": "", "arch": "", "cpu": "", "num_cpu": "", '
        '"ram": ""}, "version": 1}'
    )
    scratch = Scratch(root, home, {"CUDA_VISIBLE_DEVICES": ""})
    scratch.git("init", "-q", "-b", "main")
    return scratch
