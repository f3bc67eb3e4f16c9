"""Which files of a repository some of its modules import, as their text says. Nothing is run.

What is found is at least what is imported: a name is looked for wherever in the repository a module
could be called so. What a text cannot say, an import by a name that is made up while it runs, is
told instead of guessed.
"""

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

Read = Callable[[Collection[str]], Mapping[str, str]]
"""Paths -> the text of each; without those that have none."""

_BY_NAME = {
    "import_module",
    "__import__",
    "run_module",
    "run_path",
    "spec_from_file_location",
    "iter_modules",
    "walk_packages",
    "entry_points",
    "exec",
}
"""Functions that import what they are told."""
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
"""A module, or a file: its name has an ending."""


@dataclass(frozen=True, slots=True)
class FileImports:
    """What one file says."""

    names: frozenset[str]
    """Dotted, as they are imported: a module, or a module and a name in it. One that begins with
    dots is relative."""
    texts: frozenset[str]
    """Texts that could be names of modules, or of files."""
    by_name: int | None
    """The first line that imports by a name which does not stand there, or that is no Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What some modules import, and those in turn."""

    files: frozenset[str]
    by_name: tuple[str, ...]
    """`file:line` of what cannot be told."""


class Modules:
    """The Python files of one state of a repository."""

    def __init__(self, names: Iterable[str], read: Read) -> None:
        """`names`: of all files, from the top of the repository, separated by slashes."""
        self._read = read
        self.names = frozenset(name for name in names if name.endswith(".py"))
        self._called: dict[str, list[str]] = {}
        for name in sorted(self.names):
            parts = PurePosixPath(name).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            else:
                self._called.setdefault(f"{parts[-1]}.py", []).append(name)
            for start in range(len(parts)):
                self._called.setdefault(".".join(parts[start:]), []).append(name)

    def reach(
        self,
        roots: Mapping[str, str | None],
        is_known: Callable[[str], bool] = lambda name: False,
        homes: Mapping[str, str] | None = None,
    ) -> Reach:
        """From these files on; one has the text that stands with it, or its own. `is_known`: files
        whose imports by name lead nowhere else. `homes`: a name -> the module that it stands for.
        """
        found, by_name = set[str](), []
        texts = {name: text for name, text in roots.items() if text is not None}
        texts |= self._read(self.names & (roots.keys() - texts.keys()))
        while texts:
            found |= texts.keys()
            more = set[str]()
            for name, text in texts.items():
                more |= {inside for inside in self._packages(name) if inside in self.names}
                said = imports(text)
                if not is_known(name):
                    more.update(*(self._called.get(one, ()) for one in said.texts))
                    by_name += [f"{name}:{said.by_name}"] * (said.by_name is not None)
                for one in said.names:
                    more.update(self._modules(name, (homes or {}).get(one, one)))
            texts = dict(self._read(more - found))
            found |= more
        return Reach(files=frozenset(found), by_name=tuple(by_name))

    def _modules(self, name: str, imported: str) -> Iterator[str]:
        """The files that an import in the file `name` may mean."""
        dots = len(imported) - len(imported.lstrip("."))
        parts = [part for part in imported[dots:].split(".") if part not in ("", "*")]
        if dots:
            parents = PurePosixPath(name).parents
            if dots <= len(parents):
                yield from self._relative(parents[dots - 1], parts)
        elif parts[0] not in sys.stdlib_module_names:
            for end in range(len(parts), 0, -1):
                if called := self._called.get(".".join(parts[:end])):
                    yield from called
                    return

    def _relative(self, base: PurePosixPath, parts: list[str]) -> list[str]:
        for end in range(len(parts), -1, -1):
            path = base.joinpath(*parts[:end])
            ways = (f"{path}.py", str(path / "__init__.py"))
            if found := [way for way in ways if way in self.names]:
                return found
        return []

    @staticmethod
    def _packages(name: str) -> Iterator[str]:
        """What is run before the file is: the packages that it lies in."""
        for folder in PurePosixPath(name).parents:
            yield str(folder / "__init__.py")


@cache
def imports(text: str) -> FileImports:
    """What a file's text imports, wherever in it that stands."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return FileImports(frozenset(), frozenset(), 1)
    names, texts, unknown = set[str](), set[str](), list[int]()
    for node in _run(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names |= {f"{base}.{alias.name}" if node.module else base + alias.name
                      for alias in node.names}  # fmt: skip
            renamed = [alias for alias in node.names if alias.name in _BY_NAME and alias.asname]
            unknown += [node.lineno] * bool(renamed)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = node.value.rpartition("/")[2]
            texts |= {last} if _DOTTED.fullmatch(last) else set()
        elif isinstance(node, ast.Call) and _name(node.func) in _BY_NAME:
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                names |= {first.value} if first.value.strip(".") else set()
            else:
                unknown.append(node.lineno)
    return FileImports(frozenset(names), frozenset(texts), min(unknown, default=None))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING:`, which no program runs."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING":
            left += node.orelse
        else:
            left += ast.iter_child_nodes(node)


def _name(node: ast.expr) -> str:
    """The last part of a name; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
