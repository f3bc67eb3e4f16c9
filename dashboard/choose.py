"""Choices that live in the URL: every one is written there, so a copied link restores the view."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from words import plain


def one(key: str, label: str, options: Sequence[str], text: Callable[[str], str] = str) -> str:
    """A select box; its first option is the default."""
    _prepare(key, options)
    return _written(key, str(st.selectbox(label, options, key=key, format_func=text)))


def either(key: str, label: str, options: Sequence[str]) -> str:
    """A few fixed options side by side; the first is the default."""
    _prepare(key, options)
    return _written(key, str(st.radio(label, options, key=key, horizontal=True)))


def yes(key: str, label: str) -> bool:
    """A switch, on by default."""
    _prepare(key, ("yes", "no"), lambda value: value == "yes")
    return _written(key, "yes" if st.toggle(label, key=key) else "no") == "yes"


def _prepare(key: str, options: Sequence[str], value: Callable[[str], Any] = str) -> None:
    """Set the widget to what the URL says, else to what was chosen before, else to the default.

    A URL that differs from what was written last was followed, edited or reached by Back.
    """
    said, before = st.query_params.get(key), st.session_state.get(_memory(key))
    followed = said is not None and said != before
    now = st.session_state.get(key)
    if not followed and now in [value(option) for option in options]:
        st.session_state[key] = now  # else the widget of another page begins at its default
        return
    if followed and said not in options:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
    wanted = said if followed else before
    st.session_state[key] = value(str(wanted) if wanted in options else options[0])


def _written(key: str, chosen: str) -> str:
    st.query_params[key] = st.session_state[_memory(key)] = chosen
    return chosen


def _memory(key: str) -> str:
    """Where the choice outlives its widget, which streamlit forgets on another page."""
    return f"chosen {key}"
