"""Where an error came from, in few words."""

from pathlib import Path

import pytest

from hostbench.core.errors import raised_at


def load(path: Path) -> BaseException:
    """What running this file raises."""
    with pytest.raises(Exception) as found:
        exec(compile(path.read_text(), str(path), "exec"), {})
    return found.value


def test_the_innermost_line_of_a_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bench" / "steps.py"
    path.parent.mkdir()
    path.write_text("def f():\n    int('x')\n\nf()\n")
    error = load(path)
    monkeypatch.chdir(tmp_path)
    assert raised_at(error, path) == raised_at(error, path.parent) == " (bench/steps.py:2)"
    monkeypatch.chdir(path.parent)
    assert raised_at(error, path) == " (steps.py:2)"
    assert raised_at(error, tmp_path / "other.py") == ""


def test_a_file_elsewhere_is_named_without_its_folders(tmp_path: Path) -> None:
    """No path of this machine gets into anything stored."""
    path = tmp_path / "steps.py"
    path.write_text("1 +\n")
    assert raised_at(load(path), path) == " (steps.py:1)"
