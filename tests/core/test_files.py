"""Atomic writes: the old file or the new one, never half of either, and nothing left over.

Reading: regular files only, inside the folder, within limits.
"""

import errno
import os
import secrets
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hostbench.core.errors import BrokenError, HostbenchError, UsageError
from hostbench.core.files import read_stored, write_atomic


@pytest.mark.parametrize(
    ("place", "call", "error"),
    [
        (os, "fsync", OSError(errno.ENOSPC, "No space left on device")),
        (Path, "replace", OSError(errno.EROFS, "Read-only file system")),
        (os, "fsync", KeyboardInterrupt()),
    ],
)
def test_a_write_that_fails_or_is_killed_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, call: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(place, call, Mock(side_effect=error))
    with pytest.raises((HostbenchError, KeyboardInterrupt)) as caught:
        write_atomic(path, b"new")
    if isinstance(error, OSError):
        is_full, text = error.errno == errno.ENOSPC, str(caught.value)
        assert str(path) in text and str(error.strerror) in text
        assert ("make room" if is_full else "--results") in text
        assert isinstance(caught.value, BrokenError if is_full else UsageError)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_in_place_of_the_temporary_file_is_no_trap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"kept")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(outside)  # as the name was once
    write_atomic(tmp_path / "file", b"new")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".hostbench-guessed.tmp").symlink_to(outside)
    with pytest.raises(UsageError, match="File exists"):
        write_atomic(tmp_path / "file", b"newer")
    assert outside.read_bytes() == b"kept" and not (tmp_path / "file").is_symlink()


def test_what_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "file").write_bytes(b"content")
    (folder / "link").symlink_to("file")
    (tmp_path / "elsewhere").symlink_to(folder)
    for path in (folder / "file", folder / "link", tmp_path / "elsewhere" / "file"):
        assert read_stored(path, folder) == b"content"
