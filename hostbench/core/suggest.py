"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable, Mapping, Sequence

from hostbench.core.case import AxisValue, Selector, counts_bytes, is_value
from hostbench.core.units import typed_bytes


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    families = dict.fromkeys(map(_family, axes))
    own = [each for name, each in axes.items() if selector.workload in (name, _family(name))]
    if not own:
        word = selector.workload
        return f"{word!r} is no family or workload{did_you_mean(word, [*families, *axes])}"
    for name, text in selector.axes:
        values = dict.fromkeys(value for each in own for value in each.get(name, ()))
        if not values:
            names = dict.fromkeys(known for each in own for known in each)
            meant = did_you_mean(name, names)
            return f"{selector.workload} has no axis {name!r}{meant}; it has {', '.join(names)}"
        if not any(is_value(value, text) for value in values):
            known = [_typed(name, value) for value in _in_order(values)]
            return f"{name} is never {text!r}{did_you_mean(text, known)}; it is {', '.join(known)}"
    return "no case has all of these values"


def _family(workload: str) -> str:
    return workload.partition(".")[0]


def _in_order(values: Iterable[AxisValue]) -> list[AxisValue]:
    """Numbers by size, words as they come."""
    found = list(dict.fromkeys(values))
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def _typed(axis: str, value: AxisValue) -> str:
    """As a person types it: sizes with their unit."""
    return typed_bytes(value) if counts_bytes(axis) and type(value) is int else str(value)
