"""What somebody may have meant by a name that does not exist."""

from collections.abc import Iterable, Mapping, Sequence

from hostbench.core.case import AxisValue, Selector, is_value
from hostbench.core.units import KIB, format_bytes


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    near = get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    families = dict.fromkeys(map(_family, axes))
    own = [each for name, each in axes.items() if selector.workload in (name, _family(name))]
    if not own:
        word = selector.workload
        return f"{word!r} is no family or workload{did_you_mean(word, [*families, *axes])}"
    for name, text in selector.axes:
        values = {value for each in own for value in each.get(name, ())}
        if not values:
            known = dict.fromkeys(known for each in own for known in each)
            return f"{selector.workload} has no axis {name!r}{did_you_mean(name, known)}"
        if not any(is_value(value, text) for value in values):
            return f"{name} is never {text!r}{did_you_mean(text, map(_typed, values))}"
    return "no case has all of these values"


def _family(workload: str) -> str:
    return workload.partition(".")[0]


def _typed(value: AxisValue) -> str:
    """As a person types it: sizes with their unit."""
    if isinstance(value, str) or value < KIB:
        return str(value)
    return format_bytes(value).replace(" ", "")
