"""Which files of a repository some of its modules import, as their text says. Nothing is run.

What is found is at least what is imported: a name is looked for wherever in the repository a module
could be called so. What a text cannot say, an import by a name that is made up while it runs, is
told instead of guessed.
"""

import ast
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath
from textwrap import dedent

Read = Callable[[Collection[str]], Mapping[str, str]]
"""Paths -> the text of each; without those that have none."""

_BY_NAME = {
    "import_module",
    "__import__",
    "run_module",
    "run_path",
    "spec_from_file_location",
    "SourceFileLoader",
    "LazyLoader",
    "resolve_name",
    "iter_modules",
    "walk_packages",
    "entry_points",
    "iter_entry_points",
    "attach",
    "attach_stub",
    "exec",
}
"""Functions that import what they are told; the two of `lazy_loader` attach submodules."""
_WITH_MODULE = ("import_module", "__import__", "run_module", "run_path")
"""Those whose first argument is what they import."""
_HERE = ("__package__", "__name__")
_RUN = re.compile(r"(?:^|\s)-m\s+([\w.]+)")
"""In a command: what Python is to run."""
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


_NOTHING = FileImports(frozenset(), frozenset(), None)


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

    def called(self, name: str) -> list[str]:
        """The files that a module's dotted name, or a file's, may mean."""
        return self._called.get(name, [])

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
                    more.update(*map(self.called, said.texts))
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
        elif parts and parts[0] not in sys.stdlib_module_names:
            # All of them: a longer name may be that of another module, somewhere else.
            for end in range(len(parts), 0, -1):
                yield from self.called(".".join(parts[:end]))

    def _relative(self, base: PurePosixPath, parts: list[str]) -> Iterator[str]:
        for end in range(len(parts), -1, -1):
            path = base.joinpath(*parts[:end])
            yield from {f"{path}.py", str(path / "__init__.py")} & self.names

    @staticmethod
    def _packages(name: str) -> Iterator[str]:
        """What is run before the file is: the packages that it lies in."""
        for folder in PurePosixPath(name).parents:
            yield str(folder / "__init__.py")


@cache
def imports(text: str) -> FileImports:
    """What a file's text imports, wherever in it that stands."""
    tree = _parsed(text)
    if tree is None:
        return FileImports(frozenset(), frozenset(), 1)
    names, texts, unknown = set[str](), set[str](), list[int]()
    told = set[ast.AST]()
    for node in _run(tree):
        names |= _named(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = node.value.rpartition("/")[2]
            texts |= {last} if _DOTTED.fullmatch(last) else set()
            inner = _in_text(node.value)
            names |= inner.names
            texts |= inner.texts
            unknown += [node.lineno] * (inner.by_name is not None)
        elif isinstance(node, ast.Call) and (module := _imported_by(node)):
            names.add(module)
            told.add(node.func)
        elif node not in told and (line := _by_name(node)):
            unknown.append(line)
    return FileImports(frozenset(names), frozenset(texts), min(unknown, default=None))


def _parsed(text: str) -> ast.AST | None:
    """None of what is no Python."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _in_text(text: str) -> FileImports:
    """What a text imports that is Python itself, as for `python -c` or timeit."""
    code = dedent(text) if "import " in text else ""
    return imports(code) if code and _parsed(code) else _NOTHING


def _named(node: ast.AST) -> set[str]:
    """What one node imports, or runs, by a name that stands in it."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        base = "." * node.level + (f"{node.module}." if node.module else "")
        return {base + alias.name for alias in node.names}
    programs = list[str]()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        programs = _RUN.findall(node.value)
    elif isinstance(node, ast.List | ast.Tuple):
        texts = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
        programs = [str(name) for option, name in pairwise(texts) if option == "-m"]
    return {name for module in programs for name in (module, f"{module}.__main__")}


def _by_name(node: ast.AST) -> int | None:
    """The line of what imports by a name that may stand anywhere."""
    if isinstance(node, ast.ImportFrom):
        is_renamed = any(alias.name in _BY_NAME and alias.asname for alias in node.names)
        return node.lineno if is_renamed else None
    if isinstance(node, ast.List | ast.Tuple):
        return node.lineno if any(map(_is_made_up, node.elts, node.elts[1:])) else None
    if isinstance(node, ast.Name | ast.Attribute):
        is_eval = isinstance(node, ast.Name) and node.id == "eval"  # a method is another
        return node.lineno if is_eval or _name(node) in _BY_NAME else None
    return None


def _is_made_up(option: ast.expr, code: ast.expr) -> bool:
    """`-c` or `-m`, and behind it what is no plain text."""
    is_option = isinstance(option, ast.Constant) and option.value in ("-c", "-m")
    return is_option and not isinstance(code, ast.Constant)


def _imported_by(call: ast.Call) -> str:
    """What a call imports by a name that stands there; empty where it does not."""
    texts = [one.value if isinstance(one, ast.Constant) else None for one in call.args]
    name, called = texts[0] if texts else None, _name(call.func)
    if called not in _WITH_MODULE or not isinstance(name, str) or not name.strip("."):
        return ""
    if call.keywords or len(texts) > 1:
        if called != "import_module":
            return ""  # what to import from it, or how many packages up
        if name.startswith("."):
            package = texts[1] if len(texts) == 2 else None
            if isinstance(package, str) and not name.startswith(".."):
                return package + name
            return name if len(texts) == 2 and _name(call.args[1]) in _HERE else ""
    return name


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
