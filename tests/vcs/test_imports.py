"""What files import, as their text says: at least what Python would import."""

import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from hostbench.families import names as families
from hostbench.vcs import touched
from hostbench.vcs.imports import Modules, imports

ROOT = Path(__file__).parent.parent.parent


def reach(files: Mapping[str, str], *roots: str) -> set[str]:
    def read(names: Collection[str]) -> dict[str, str]:
        return {name: files[name] for name in names}

    return {*Modules(files, read).reach(dict.fromkeys(roots)).files} - {*roots}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import mine.deep.er", {"src/mine/__init__.py", "src/mine/deep/er.py"}),
        ("from mine import one as two", {"src/mine/__init__.py", "src/mine/one.py"}),
        ("from mine.one import name", {"src/mine/__init__.py", "src/mine/one.py"}),
        ("from mine import name", {"src/mine/__init__.py"}),
        ("from mine.one import *", {"src/mine/__init__.py", "src/mine/one.py"}),
        ("import mine.made_by_c.part", {"src/mine/__init__.py"}),
        ("from . import near", {"bench/near.py"}),
        ("from .near import x", {"bench/near.py"}),
        ("from ..other import x", {"other.py"}),
        ("from .... import x", set()),
        ("import near", {"bench/near.py"}),
        ("def f():\n    import other", {"other.py"}),
        ("try:\n    import other\nexcept ImportError: pass", {"other.py"}),
        ("import json, types", set()),
        ("if TYPE_CHECKING:\n    import other\nelse:\n    import near", {"bench/near.py"}),
        ("if t.TYPE_CHECKING:\n    import other", set()),
        ("import_module('other')", {"other.py"}),
        ("LAZY = {'x': 'mine.deep.er'}", {"src/mine/__init__.py", "src/mine/deep/er.py"}),
        ("run(['python', 'tools/other.py'])", {"other.py"}),
        ("'other' 'a.b' 'types'", set()),
        ("'mine/__init__.py'", set()),
        ("from .near.x import *", {"bench/near.py"}),
        ("import chain", {"chain.py", "other.py", "types.py"}),
        ("from one import name", {"src/mine/one.py", "src/mine/__init__.py", "far/one/name.py"}),
        ("import_module('.er', 'mine.deep')", {"src/mine/__init__.py", "src/mine/deep/er.py"}),
        ("import_module('.near', __package__)", {"bench/near.py"}),
        ("run([exe, '-m', 'mine'])", {"src/mine/__init__.py", "src/mine/__main__.py"}),
        ("system('python -m other --fast')", {"other.py"}),
        ("run(['pytest', '-m', ''])", set()),
        ("run([exe, '-c', 'import other; other.f()'])", {"other.py"}),
        ("CODE = '\\n    import near\\n    near.f()'", {"bench/near.py"}),
        ("'how to import other things'", set()),
    ],
)
def test_what_is_imported(text: str, found: set[str]) -> None:
    files = {
        "bench/root.py": text,
        "bench/near.py": "",
        "src/mine/__init__.py": "",
        "src/mine/__main__.py": "",
        "src/mine/one.py": "",
        "far/one/name.py": "",
        "src/mine/deep/er.py": "",
        "other.py": "",
        "types.py": "import chain",
        "chain.py": "import other\nfrom . import types",
        "unrelated.py": "import other",
        "data.json": "{}",
    }
    assert reach(files, "bench/root.py") == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import a\nimportlib.import_module(f'x{a}')", 2),
        ("__import__(name)", 1),
        ("pkgutil.walk_packages(path)", 1),
        ("exec(code)", 1),
        ("from importlib import import_module as load", 1),
        ("this is no Python", 1),
        ("\0", 1),
        ("import_module('a.b')", None),
        ("found = map(importlib.import_module, names)", 1),
        ("import_module('.x', name)", 1),
        ("__import__('a', fromlist=['b'])", 1),
        ("spec_from_file_location('a', path)", 1),
        ("exec('import a')", 1),
        ("eval(text)", 1),
        ("model.eval()", None),
        ("run([exe, '-c', f'import {name}'])", 1),
        ("run((exe, '-m', name))", 1),
        ("timeit('from importlib import import_module; import_module(name)')", 1),
        ("x = '\\d'", None),
        ("lazy.attach(__name__, ['a'])", 1),
    ],
)
def test_what_a_text_cannot_say_is_told(text: str, line: int | None) -> None:
    assert imports(text).by_name == line


def test_all_that_a_worker_imports_is_reached() -> None:
    """The real thing, of every family: what a process has loaded that has walked into a worker."""
    found, _ = touched._reaches(ROOT, ROOT, (None,), families())
    code = (
        "import sys, hostbench.runner.server, hostbench.runner.worker, hostbench.device.simulated;"
        "import hostbench.families.{0}.workloads;"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'hostbench'))"
    )
    for family in families()[:2]:
        done = subprocess.run(
            [sys.executable, "-c", code.format(family)], cwd=ROOT, capture_output=True, text=True
        )
        loaded = {Path(name).relative_to(ROOT).as_posix() for name in done.stdout.split()}
        assert len(loaded) > 40, done.stderr
        assert loaded <= found[family][0].files, family
