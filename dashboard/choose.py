"""Choices that live in the address: it alone says what is chosen, so that a copied link restores
the view and Back undoes the last choice.

What is not in the address is the default: a page that is visited is one entry of the browser's
history, and each choice one more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from words import plain


def one(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    drops: Sequence[str] = (),
) -> str:
    """A select box; its first option is the default. Another choice takes the keys that it `drops`
    out of the address: what they named may not be there any more."""
    _set(key, options, str)
    changed = _write(key, str, drops)
    return str(st.selectbox(label, options, key=key, format_func=text, on_change=changed))


def either(key: str, label: str, options: Sequence[str]) -> str:
    """A few fixed options side by side; the first is the default."""
    _set(key, options, str)
    changed = _write(key, str)
    return str(st.radio(label, options, key=key, horizontal=True, on_change=changed))


def yes(key: str, label: str, *, default: bool = True) -> bool:
    """A switch."""
    _set(key, ("yes", "no") if default else ("no", "yes"), lambda said: said == "yes")
    changed = _write(key, lambda on: "yes" if on else "no")
    return bool(st.toggle(label, key=key, on_change=changed))


def _set(key: str, options: Sequence[str], value: Callable[[str], Any]) -> None:
    """Set a widget to what the address says, else to the first option."""
    said = st.query_params.get(key)
    if said is not None and said not in options:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
        said = None
    st.session_state[key] = value(options[0] if said is None else said)


def _write(key: str, text: Callable[[Any], str], drops: Sequence[str] = ()) -> Callable[[], None]:
    """Write a choice into the address, before the page runs again."""

    def write() -> None:
        kept = {name: one for name, one in st.query_params.items() if name not in drops}
        st.query_params.from_dict({**kept, key: text(st.session_state[key])})

    return write
