"""Atomic writes: the old file or the new one, never half of either, and nothing left over."""

import os
from pathlib import Path

import pytest

from hostbench.core.errors import UsageError
from hostbench.core.files import write_atomic


def test_it_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file"
    write_atomic(path, b"one")
    assert path.read_bytes() == b"one"
    write_atomic(path, b"")
    assert path.read_bytes() == b""
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, no_space)
    with pytest.raises(UsageError, match="No space left on device") as caught:
        write_atomic(path, b"new")
    assert str(path) in str(caught.value)
    assert "--results" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_kill_in_the_middle_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot write"):
        write_atomic(tmp_path / "folder" / "file", b"new")


def test_the_remedy_is_the_callers(tmp_path: Path) -> None:
    (tmp_path / "folder").write_bytes(b"")
    for path in (tmp_path / "folder" / "file", Path("/"), Path()):
        with pytest.raises(UsageError, match="; try another"):
            write_atomic(path, b"new", "try another")


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomic(tmp_path / "file", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
