"""torch's compiler and sympy, which the stand-in does without, and so do scripts in tests."""

import importlib
import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any


class Known(ModuleType):
    """A module of which some names are known; for any other it is imported after all."""

    def __init__(self, name: str, **names: Any) -> None:
        super().__init__(name)
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _let_be_imported(_COMPILER)
        return getattr(importlib.import_module(self.__name__), name)


_NOTHING_COMPILED = Known("torch._inductor.config", triton=SimpleNamespace(cudagraphs=False))
_COMPILER = (
    Known(
        "torch._dynamo",
        disable=lambda function, *_, **__: function,
        graph_break=lambda: None,
    ),
    Known("torch._inductor", config=_NOTHING_COMPILED),
    _NOTHING_COMPILED,
    Known(
        "torch.fx.experimental.symbolic_shapes",
        expect_true=bool,
        guard_or_false=bool,
        guard_or_true=bool,
        guard_size_oblivious=bool,
        guarding_hint_or_throw=int,
        has_guarding_hint=lambda size: True,
        is_nested_int=lambda size: False,
        statically_known_true=bool,
        sym_and=lambda *conditions: all(conditions),
        sym_eq=operator.eq,
        sym_or=lambda *conditions: any(conditions),
    ),
    Known("sympy", Basic=type("Basic", (), {})),
)


@contextmanager
def no_compiler() -> Iterator[None]:
    """Shapes of some operations come from Python code of torch's, which imports its compiler, and
    sympy, for a second or two: to say that it is not to be compiled, and to ask of sizes, which are
    plain numbers here, what is asked of symbols. Optimizers and profilers import it to be told that
    nothing is compiled."""
    lacking = [each for each in _COMPILER if each.__name__ not in sys.modules]
    sys.modules.update({each.__name__: each for each in lacking})
    try:
        yield
    finally:
        _let_be_imported(lacking)


def _let_be_imported(modules: Iterable[ModuleType]) -> None:
    for each in modules:
        if sys.modules.get(each.__name__) is each:
            del sys.modules[each.__name__]
