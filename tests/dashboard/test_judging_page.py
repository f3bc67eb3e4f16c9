"""While what is stored is being judged, a page says how far that is, and never an error."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests import dashboard_page
from tests.dashboard_page import APP, said
from tests.fakes.history import CASES, nightly, write

on_the_path = dashboard_page.on_the_path


def test_a_page_has_it_judged_and_says_why_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import judging
    import stored

    results = tmp_path / "results"
    write(results, nightly(12), cases=CASES[:2], machine="box")
    monkeypatch.setenv("HOSTBENCH_RESULTS", str(results))
    app = AppTest.from_file(str(APP / "app.py"), default_timeout=30)
    app.switch_page("views/changes.py").run()
    assert not app.exception and not app.error
    assert "Judging what is stored, once: " in said(app)
    process = judging._process(str(results), "commit", stored.signature(results))
    assert process.wait(60) == 0
    app.run()
    assert not app.exception and "Judging what is stored" not in said(app)
    assert "No change to show: 2 of 2 series are judged." in said(app)
    (whole,) = (results.parent / ".results.table" / "judged").glob("commit-all-*")
    (whole / "events.parquet").write_bytes(b"half of it")
    judging._caused.clear()
    app.run()
    assert not app.exception and "cannot be read: load the page again" in said(app)
    assert not whole.exists()
    whole.write_text("in its way")
    monkeypatch.setattr(judging, "start", lambda *about: process)
    monkeypatch.setattr(process, "returncode", 1)
    judging._process.clear()
    app.run()
    assert "What is stored cannot be judged: the process that judges ended with 1; " in said(app)


def test_files_that_come_while_it_is_judged_are_looked_at_before_it_is_judged_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import judging
    import stored

    class Ended:
        def poll(self) -> int:
            return 0

    results = tmp_path / "results"
    write(results, nightly(12), cases=CASES[:2], machine="box")
    monkeypatch.setattr(stored, "MANY", 0)
    monkeypatch.setattr(stored, "LOOK_S", 1e6)
    started = []

    def start(*about: object) -> Ended:
        started.append(about)
        return Ended()

    monkeypatch.setattr(judging, "start", start)
    seen = stored.signature(results)
    (results / "later.json").write_text("{}")
    assert stored.signature(results) == seen  # the last look counts still
    judging.how_far(results, "commit")
    assert len(started) == 1 and stored.signature(results) != seen
