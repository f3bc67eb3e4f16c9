"""Each confirmed change is sent once, and what is secret stays so."""

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostbench.core.errors import BrokenError, UsageError
from hostbench.facts.environment import variables
from hostbench.notify import http, sent, webhook
from hostbench.notify.change import ConfirmedChange, in_words, link, of_event
from hostbench.notify.comments import GITHUB_TOKEN, GITLAB_TOKEN
from hostbench.notify.http import Place, checked_url, exchange
from hostbench.notify.webhook import DASHBOARD, FORM, WEBHOOK, Notified, notify
from hostbench.store import check
from hostbench.vcs.remote_branch import TOKEN
from tests.notify.servers import Host, host

SECRET = "T0KEN-of-the-webhook"
CHANGE = ConfirmedChange(
    series="transfer.host_to_device[nbytes=16MiB]@box",
    machine="box",
    since="1a2b3c4d" + "0" * 32,
    direction="slower",
    effect=0.123,
    near=frozenset({"2b" * 20}),
    interval=(0.101, 0.145),
    before_s=0.001,
    after_s=0.001123,
    cause="likely the code: 2 commits <b> @all",
)
OTHER = replace(CHANGE, series="machine:box", since="20261121T120805Z-1a2b3c4d-9f3e")


def environ(host: Host, **more: str) -> dict[str, str]:
    return {WEBHOOK: f"{host.url}/{SECRET}", **more}


def test_each_change_is_sent_once(tmp_path: Path) -> None:
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = "ok"
        env = environ(hook, **{DASHBOARD: "https://bench.example/x/"})
        assert notify(tmp_path, [CHANGE, OTHER], env).sent == (CHANGE, OTHER)
        assert notify(tmp_path, [OTHER, CHANGE], env) == Notified()
        moved = replace(CHANGE, since="2b" * 20, near=frozenset({CHANGE.since}), effect=0.2)
        assert notify(tmp_path, [moved], env).sent == ()
        new = replace(CHANGE, since="3c" * 20, near=frozenset())
        back = replace(CHANGE, direction="faster", series="a.b[kind=two\nlines\u2028]@box")
        assert notify(tmp_path, [new, back], env).sent == (new, back)
        assert notify(tmp_path, [new, back], env) == Notified()
    bodies = [body for _, body in hook.named("POST")]
    assert len(bodies) == 4
    assert bodies[0] == {
        "event": "hostbench.change",
        "text": in_words(CHANGE),
        "series": CHANGE.series,
        "machine": "box",
        "since": CHANGE.since,
        "direction": "slower",
        "effect": 0.123,
        "interval": [0.101, 0.145],
        "before_s": 0.001,
        "after_s": 0.001123,
        "cause": CHANGE.cause,
        "link": "https://bench.example/x/trend?machine=box&workload=transfer.host_to_device"
        "&case=transfer.host_to_device%5Bnbytes%3D16MiB%5D",
    }
    assert bodies[1]["link"] == "https://bench.example/x/changes?machine=box"
    assert check.check(tmp_path).findings == []


def test_slacks_form_has_no_markup_of_others(tmp_path: Path) -> None:
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = "ok"
        notify(tmp_path, [CHANGE], environ(hook, **{FORM: "slack", DASHBOARD: "https://d.example"}))
    ((_, body),) = hook.named("POST")
    assert list(body) == ["text"]
    text, _, where = body["text"].rpartition(" ")
    assert text.startswith("12.3% (+10.1% to +14.5%) slower: transfer.host_to_device[nbytes=16MiB]")
    assert text.endswith("2 commits &lt;b&gt; @\u200ball") and "@box" not in text
    assert where.startswith("<https://d.example/trend?") and where.endswith("|dashboard>")


def test_the_text_is_one_line() -> None:
    hostile = replace(CHANGE, series="a\n\x1b[2Jb@box", cause="", before_s=None)
    assert "\n" not in in_words(hostile) and "\x1b" not in in_words(hostile)
    assert in_words(replace(hostile, interval=(None, 0.1))).startswith("12.3% slower: ")


def test_without_an_address_nothing_happens(tmp_path: Path) -> None:
    assert notify(tmp_path, [CHANGE], {FORM: "nonsense"}) == Notified()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (302, ": it has moved: name its new address"),
        (404, ": it is not there, or the token may not see it"),
        (500, ""),
    ],
)
def test_what_fails_is_tried_again_the_next_night(tmp_path: Path, status: int, why: str) -> None:
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = status
        done = notify(tmp_path, [CHANGE, OTHER], environ(hook))
        assert (done.sent, done.waiting) == ((), (CHANGE, OTHER))
        assert done.warnings == (
            f"the webhook refuses, with status {status}{why}",
            "2 changes not sent yet: the next night tries again",
        )
        assert len(hook.asked) == 1, "neither a redirect nor the next change"
        third = replace(OTHER, machine="box-2", series="machine:box-2")
        assert notify(tmp_path, [third, CHANGE], environ(hook)).waiting == (CHANGE, OTHER, third)
        hook.answers[f"POST /{SECRET}"] = "ok"
        assert notify(tmp_path, [], environ(hook), machine="box").sent == (CHANGE, OTHER)
        assert notify(tmp_path, [CHANGE], environ(hook), machine="box") == Notified()
        assert notify(tmp_path, [], environ(hook), machine="box-2").sent == (third,)
        assert notify(tmp_path, [], environ(hook)) == Notified()
    assert check.check(tmp_path).findings == []


def test_old_news_is_not_sent(tmp_path: Path) -> None:
    for days, num in ((13, 1), (15, 0)):
        at = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y%m%dT%H%M%SZ")
        folder = tmp_path / str(days)
        sent.write(folder / "notified" / f"{at}-0000.txt", [], [CHANGE])
        found = sent.read(folder, pytest.fail)
        assert found.waiting == [CHANGE] * num


def test_a_night_sends_no_more_than_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MOST", 1)
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = "ok"
        assert notify(tmp_path, [CHANGE, OTHER], environ(hook)).waiting == (OTHER,)
        assert notify(tmp_path, [], environ(hook)).sent == (OTHER,)


def test_what_other_machines_sent_is_not_sent_again(tmp_path: Path) -> None:
    sent.write(tmp_path / "notified" / "a.txt", [CHANGE])
    sent.write(tmp_path / "notified" / "b.txt", [OTHER])
    with host() as hook:
        assert notify(tmp_path, [CHANGE, OTHER], environ(hook)) == Notified()
    assert hook.asked == []


def test_a_damaged_note_is_said_and_the_rest_counts(tmp_path: Path) -> None:
    path = tmp_path / "notified" / "a.txt"
    sent.write(path, [CHANGE, OTHER])
    path.write_text(path.read_text().replace("slower 2026", "slo") + 'waiting {"series": 1}\n')
    (path.parent / "b.txt").write_bytes(b"\xff")
    (path.parent / "c.txt").symlink_to("/etc/passwd")
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = "ok"
        done = notify(tmp_path, [CHANGE, OTHER], environ(hook))
    assert done.sent == (OTHER,)
    said = sorted(done.warnings)
    assert said[0].startswith("notified/a.txt, line 3 is damaged: that change may be sent again")
    assert said[1].startswith("notified/a.txt, line 4 is damaged")
    assert [text.partition(" ")[0] for text in said[2:]] == ["notified/b.txt", "notified/c.txt"]
    assert "root:" not in str(said)


def test_a_note_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "notified").write_text("a file")
    with host() as hook:
        hook.answers[f"POST /{SECRET}"] = "ok"
        done = notify(tmp_path, [CHANGE], environ(hook))
    assert "cannot write" in done.warnings[0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({WEBHOOK: f"ftp://x/{SECRET}"}, "HOSTBENCH_WEBHOOK is no address"),
        ({WEBHOOK: f"http://example.com/{SECRET}"}, "must begin with https://"),
        ({WEBHOOK: f"https://u:{SECRET}@x/"}, "name no user"),
        ({WEBHOOK: f"https://[/{SECRET}"}, "HOSTBENCH_WEBHOOK is no address"),
        ({WEBHOOK: f"https://x/ {SECRET}\n"}, "HOSTBENCH_WEBHOOK is no address"),
        ({FORM: "teams"}, "HOSTBENCH_WEBHOOK_FORM is 'teams'; it must be json or slack"),
        ({DASHBOARD: "javascript:x"}, "HOSTBENCH_DASHBOARD is no address"),
        ({DASHBOARD: f"https://u:{SECRET}@x.example/"}, "HOSTBENCH_DASHBOARD is no address"),
    ],
)
def test_wrong_settings_are_said_and_fail_nothing(
    tmp_path: Path, more: dict[str, str], said: str
) -> None:
    done = notify(tmp_path, [CHANGE], {WEBHOOK: "https://x.invalid/", **more})
    assert done.waiting == (CHANGE,) and said in done.warnings[0]
    assert SECRET not in str(done.warnings)


def test_a_secret_is_in_nothing_that_is_said_or_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Refused, unreachable, or sent."""
    said = []
    with host() as hook:
        for answer in (500, "ok"):
            hook.answers[f"POST /{SECRET}"] = answer
            said.append(notify(tmp_path, [CHANGE], environ(hook)))
        place = Place(name="the webhook", url=f"{hook.url}/{SECRET}", headers={"X": SECRET})
    said.append(notify(tmp_path, [OTHER], environ(hook)))
    assert "the webhook cannot be reached (Connection refused)" in said[-1].warnings
    with pytest.raises(BrokenError) as error:
        exchange(place, "POST", body=1)
    out = capfd.readouterr()
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) == 3
    assert SECRET not in "".join(
        (repr(said), repr(place), repr(error.value), out.out, out.err, *kept)
    )


def test_no_fact_holds_a_secret() -> None:
    """Facts go into archives; those of the environment name each variable that they keep."""
    names = (WEBHOOK, TOKEN, GITHUB_TOKEN, GITLAB_TOKEN)
    given = dict.fromkeys((*names, "NCCL_DEBUG"), SECRET)
    kept = [name for name, fact in variables(given).items() if SECRET in repr(fact)]
    assert kept == ["env_NCCL_DEBUG"]


def test_no_proxy_reads_what_is_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with host() as here, host() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        here.answers["GET /"] = "ok"
        place = Place(name="it", url=f"{here.url}/", headers={"Authorization": SECRET})
        assert exchange(place, "GET") == "ok"
    assert proxy.asked == [] and here.tokens == {SECRET}


def test_a_host_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LIMIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = Place(name="it", url=f"http://127.0.0.1:{server.getsockname()[1]}", headers={})
        with pytest.raises(BrokenError, match=r"it does not answer within 0\.1 s"):
            exchange(place, "GET")


def test_only_addresses_that_are_safe() -> None:
    assert checked_url("https://x.example/a", "X") == "https://x.example/a"
    assert checked_url("http://localhost:1/a", "X") == "http://localhost:1/a"
    for wrong in ("", "https://", "http://10.0.0.1/", "file:///etc/passwd", "https://x\u00e9/"):
        with pytest.raises(UsageError, match="X is no address"):
            checked_url(wrong, "X")


def test_the_record_of_an_event() -> None:
    event = SimpleNamespace(
        id=CHANGE.series, commit=CHANGE.since, direction="slower", near=CHANGE.near
    )
    found: Any = SimpleNamespace(
        event=event,
        grid=SimpleNamespace(machine="box"),
        change=SimpleNamespace(effect=0.123),
        low=0.101,
        high=0.145,
        before_s=0.001,
        after_s=0.001123,
    )
    cause = SimpleNamespace(label="likely the code", why=("2 commits <b> @all",))
    told: Any = SimpleNamespace(found=found, cause=cause, triage=None)
    assert of_event(told) == CHANGE
    assert "case=" in link(CHANGE, "https://d.example") and link(OTHER, "d").startswith(
        "d/changes?"
    )
