"""Markdown that anybody may have written, made safe to be posted under our name.

Text, tables, code and folds stay. Links, images, mentions, references, other markup and GitLab's
commands are shown as they are written, and do nothing.
"""

import re
import unicodedata

from hostbench.core.errors import DataError

MARKER = re.compile(r"<!-- hostbench: [a-z-]{1,20} -->")
"""By which a comment is found again."""
MOST = 60_000
"""Characters: GitHub takes 65,536."""
_CUT = "\n\nThe rest is cut off; the file that the job hands on has all of it.\n"
_APART = "\u200b"
"""A space without width: what stands on its two sides is not read as one."""
_TAG = re.compile(r"<(?!/?(?:details|summary|br|b|code)>)")
_ACTING = re.compile(r"@|:(?=//)|www(?=\.)|\](?=[(\[:])|[#!](?=\d)|\b[Gg][Hh]-(?=\d)|mailto:|xmpp:")
_COMMAND = re.compile(r"^([ \t]*)(?=/)", re.MULTILINE)


def safe(text: str) -> tuple[str, str]:
    """(the marker, the whole comment, which begins with it). Raises DataError without a marker."""
    marker = MARKER.search(text)
    if marker is None:
        raise DataError("it has no line like <!-- hostbench: ab -->, by which a comment is found")
    plain = MARKER.sub("", text).replace("\r\n", "\n")
    plain = "".join(sign for sign in plain if sign in "\n\t" or not _is_hidden(sign)).strip()
    plain = _TAG.sub("&lt;", plain.replace("&", "&amp;"))
    plain = _ACTING.sub(lambda match: f"{match[0]}{_APART}", plain)
    plain = _COMMAND.sub(rf"\1{_APART}", plain)
    if len(plain) > MOST:
        plain = plain[:MOST].rpartition("\n")[0] + _CUT
    return marker[0], f"{marker[0]}\n{plain}\n"


def _is_hidden(sign: str) -> bool:
    """Controls, and what changes the direction or order of what is read."""
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
