"""A chart of a page as a file to keep, drawn without a browser: on white, with its title in it.

In a process of its own: what draws takes 80 MB, and texts of stored files are in it.
"""

import json
import subprocess
import sys
import textwrap
from typing import Literal

from hostbench.core.errors import HostbenchError
from hostbench.report.charts import Spec, heading, printable

Form = Literal["svg", "png"]
WIDTH = 860
TIMEOUT_S = 60
_TITLE_LENGTH = 90


def chart_file(spec: Spec, title: str, form: Form) -> bytes:
    """A chart that has no title yet as a file, WIDTH px wide; a PNG has two pixels for each. Raises
    HostbenchError."""
    about = spec.get("title", {}).get("text", [])
    over = heading(textwrap.wrap(title, _TITLE_LENGTH), about)
    whole = {**spec, **over, "width": WIDTH, "background": "white", "usermeta": {}}
    drawn = subprocess.run(
        [sys.executable, "-P", "-m", __name__, form],
        input=json.dumps(printable(whole)).encode(),
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    if drawn.returncode:
        raise HostbenchError(f"the chart could not be drawn: {drawn.stderr[-200:]!r}")
    return drawn.stdout


def _draw(form: str) -> bytes:
    import vl_convert

    spec = json.load(sys.stdin)
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return str(vl_convert.vegalite_to_svg(spec)).encode()


if __name__ == "__main__":
    sys.stdout.buffer.write(_draw(sys.argv[1]))
