"""Reading /proc and /sys below an injectable root; a file that cannot be read is None."""

from pathlib import Path


def read_text(path: Path) -> str | None:
    """Stripped content, or None where the file is missing, empty or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n\t ") or None
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """A file that holds one integer."""
    text = read_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def read_fields(path: Path) -> dict[str, str]:
    """`name: value` lines; the first line of a name counts."""
    fields: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def listed(text: str | None) -> set[int]:
    """The numbers that a kernel list such as `0-3,8` names; empty where it is not one."""
    numbers: set[int] = set()
    for part in filter(None, (text or "").strip().split(",")):
        first, _, last = part.partition("-")
        try:
            numbers.update(range(int(first), int(last or first) + 1))
        except ValueError:
            return set()
    return numbers


def entries(path: Path, pattern: str) -> list[Path]:
    """Sorted matches below a directory; none where it cannot be read."""
    try:
        return sorted(path.glob(pattern))
    except OSError:
        return []
