"""The project's documentation as the page Method shows it. No streamlit."""

import re
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = (HERE.parent / "docs", HERE.parent / "_docs")
"""Of a checkout, and as the wheel has it."""
FIRST = ("method", "judgement", "benchmarks", "facts", "glossary", "results")
SHORT = 1000
"""Signs of what is no page of its own."""
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")


def _folder() -> Path | None:
    return next((one for one in FOLDERS if (one / "method.md").is_file()), None)


def names() -> list[str]:
    """Every page, what explains the numbers first; nothing where they are not installed."""
    folder = _folder()
    known = [] if folder is None else sorted(path.stem for path in folder.glob("*.md"))
    return [*(one for one in FIRST if one in known), *(one for one in known if one not in FIRST)]


def title(name: str) -> str:
    """Its first heading."""
    folder = _folder()
    assert folder is not None
    first = (folder / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() or name


def sections(name: str) -> dict[str, str]:
    """Heading -> its Markdown; what stands before the first heading is under the page's own, and
    where that is short, with the first. A link to another page of ours is its words alone."""
    folder = _folder()
    assert folder is not None and name in names()
    whole = (folder / f"{name}.md").read_text(encoding="utf-8").partition("\n")[2]
    found = {title(name): ""}
    heading, is_code = title(name), False
    for line in _LINK.sub(r"\1", whole).splitlines(keepends=True):
        is_code ^= line.startswith("```")
        if line.startswith("## ") and not is_code:
            heading = line.lstrip("# ").strip().replace("`", "")
            if list(found) == [title(name)] and len(found[title(name)]) < SHORT:
                found = {heading: found[title(name)]}
        found[heading] = found.get(heading, "") + line
    return {heading: text for heading, text in found.items() if text.strip()}
