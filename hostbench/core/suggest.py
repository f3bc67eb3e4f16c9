"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable, Mapping, Sequence

from hostbench.core.case import AxisValue, Selector, counts_bytes, is_value, typed_value
from hostbench.core.units import parse_bytes

_ALSO_CALLED = {"gpu": "cuda"}
"""What people say -> what it is called here, where another name is spelled more like it."""
_NEAR = 2.0
"""A size is near another within this factor."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    by_lower = {name.lower(): name for name in known}
    lowered = word.lower()
    meant = _ALSO_CALLED.get(lowered, lowered)
    near = get_close_matches(meant if meant in by_lower else lowered, by_lower, n=1)
    return _meant(by_lower[near[0]]) if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    families = dict.fromkeys(map(_family, axes))
    own = [values for name, values in axes.items() if selector.workload in (name, _family(name))]
    if not own:
        word = selector.workload
        return f"{word!r} is no family or workload{did_you_mean(word, [*families, *axes])}"
    for name, text in selector.axes:
        values = dict.fromkeys(value for values_of in own for value in values_of.get(name, ()))
        if not values:
            names = dict.fromkeys(known for values_of in own for known in values_of)
            meant = did_you_mean(name, names)
            return f"{selector.workload} has no axis {name!r}{meant}; it has {', '.join(names)}"
        if not any(is_value(value, text) for value in values):
            known = [typed_value(name, value) for value in _in_order(values)]
            meant = _near_size(name, text, values) or did_you_mean(text, known)
            return f"{name} is never {text!r}{meant}; it is {', '.join(known)}"
    return "no case has all of these values"


def _family(workload: str) -> str:
    return workload.partition(".")[0]


def _in_order(values: Iterable[AxisValue]) -> list[AxisValue]:
    """Numbers by size, words as they come."""
    distinct = list(dict.fromkeys(values))
    return distinct if any(isinstance(value, str) for value in distinct) else sorted(distinct)


def _near_size(axis: str, text: str, values: Iterable[AxisValue]) -> str:
    """Of a size the nearest by value, not by spelling: for 17MiB 16MiB, not 1MiB. Empty where none
    is near, or the text is no size."""
    sizes = [value for value in values if type(value) is int and value > 0]
    try:
        asked = parse_bytes(text) if counts_bytes(axis) else 0
    except (ValueError, OverflowError):
        return ""
    if asked <= 0 or not sizes:
        return ""
    nearest = min(sizes, key=lambda value: _factor(value, asked))
    return _meant(typed_value(axis, nearest)) if _factor(nearest, asked) <= _NEAR else ""


def _factor(first: int, second: int) -> float:
    return max(first, second) / min(first, second)


def _meant(name: str) -> str:
    return f" (did you mean {name!r}?)"
