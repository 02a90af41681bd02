"""hooks.gmail: what `gog` is started with, and a mail from it to a turn. `gog` and `tailscale` are scripts here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import until
from gateway.whole import place
from palinurus.app.mail import MailWatch
from palinurus.testing.model import ScriptedModel, say

SCRIPT = f"""#!{sys.executable}
import json, os, sys, time, urllib.request
words, seen = sys.argv[1:], os.path.join(os.environ["HOME"], "seen")
with open(seen, "a") as file:
    file.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
if "serve" in words and "gmail" in words:
    option = lambda name: words[words.index(name) + 1]
    body = {{"source": "gmail", "messages": [{{"id": "18c", "from": "Ann", "subject": "Invoice", "body": "Pay 42"}}]}}
    request = urllib.request.Request(option("--hook-url"), json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", "Bearer " + option("--hook-token"))
    request.add_header("Content-Type", "application/json")
    answer = urllib.request.urlopen(request)
    with open(seen + ".answer", "w") as file:
        file.write(str(answer.status))
    time.sleep(600)
"""
GMAIL = {"account": "me@example.org", "topic": "projects/p/topics/t", "pushToken": "push-secret"}


def make_programs(home: Path) -> dict[str, str]:
    folder = home / ".local" / "bin"
    folder.mkdir(parents=True)
    for name in ("gog", "tailscale"):
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    return {"HOME": str(home), "PATH": str(folder)}


def read_seen(home: Path) -> list[list[str]]:
    file = home / "seen"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def watch(tmp_path: Path, own: dict[str, Any], model: ScriptedModel, line: str = "serve") -> list[list[str]]:
    """Start all of it, wait until a mail came and a program was started with `line`, and end it; the lines that the
    programs were started with."""
    environ = make_programs(tmp_path / "u")
    hooks = {"enabled": True, "token": "long-random-text", "gmail": {**GMAIL, **own}}
    async with place(tmp_path / "h", model, hooks=hooks) as here:
        url = f"http://127.0.0.1:{here.server.port}"
        opened = here.app.webhooks.make_pass("gmail")
        mail = MailWatch(here.app.settings, environ, here.app.clock, address=url, hook_token=opened)
        mail.start()
        try:
            await until(lambda: (tmp_path / "u" / "seen.answer").exists() and bool(model.requests))
            await until(lambda: any(line in one for one in read_seen(tmp_path / "u")))
        finally:
            await mail.close()
    return read_seen(tmp_path / "u")


async def test_a_mail_becomes_a_turn(tmp_path: Path) -> None:
    model = ScriptedModel([say("NO_REPLY")])
    seen = await watch(tmp_path, {}, model)
    assert "Pay 42" in str(model.requests[0].messages) and (tmp_path / "u" / "seen.answer").read_text() == "200"
    serve = next(line for line in seen if "serve" in line)
    assert serve[:6] == ["gog", "gmail", "watch", "serve", "--account", "me@example.org"]
    assert "long-random-text" not in str(seen)  # the gateway's own hook token is not handed out


@pytest.mark.parametrize(
    ("own", "line", "words"),
    [
        ({}, "serve", ["--include-body", "--max-bytes", "20000"]),
        ({"maxBytes": 77}, "serve", ["--max-bytes", "77"]),
        ({"serve": {"bind": "127.0.0.9", "port": 99, "path": "/p"}}, "serve",
         ["--bind", "127.0.0.9", "--port", "99", "--path", "/p"]),
        ({"pushToken": "other"}, "serve", ["--token", "other"]),
        ({"label": "Bills"}, "start", ["--label", "Bills", "--topic", "projects/p/topics/t"]),
        ({"renewEveryMinutes": 0.0001}, "start", ["--account", "me@example.org"]),
        ({"tailscale": {"mode": "funnel", "path": "/mail"}}, "funnel", ["--set-path", "/mail"]),
    ],
)  # fmt: skip
async def test_the_programs_are_started_as_the_config_says(
    tmp_path: Path, own: dict[str, Any], line: str, words: list[str]
) -> None:
    seen = [one for one in await watch(tmp_path, own, ScriptedModel([say("NO_REPLY")]), line) if line in one]
    assert seen and any(words == one[at : at + len(words)] for one in seen for at in range(len(one)))


@pytest.mark.parametrize("own", [{"model": "fake/other"}, {"thinking": "high"}, {}])
async def test_model_and_thinking_are_those_of_mail(tmp_path: Path, own: dict[str, Any]) -> None:
    hooks = {"enabled": True, "token": "t", "gmail": {**GMAIL, **own}}
    async with place(tmp_path / "h", hooks=hooks) as here:
        (hook,) = here.app.settings.webhooks.hooks
        assert (hook.id, hook.options) == ("gmail", own)


async def test_bodies_can_be_left_out_and_the_address_changed(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        elsewhere = f"http://127.0.0.1:{here.server.port}/hooks/else"
        environ = make_programs(tmp_path / "u")
        hooks = {"enabled": True, "token": "t", "gmail": {**GMAIL, "includeBody": False, "hookUrl": elsewhere}}
        async with place(tmp_path / "g", hooks=hooks) as other:
            mail = MailWatch(other.app.settings, environ, other.app.clock, address="http://x", hook_token="p")
            mail.start()
            await until(lambda: any("serve" in line for line in read_seen(tmp_path / "u")))
            await mail.close()
    serve = next(line for line in read_seen(tmp_path / "u") if "serve" in line)
    assert "--include-body" not in serve and elsewhere in serve


async def test_without_the_program_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hooks = {"enabled": True, "token": "t", "gmail": GMAIL}
    async with place(tmp_path / "h", hooks=hooks) as here:
        mail = MailWatch(here.app.settings, {"HOME": str(tmp_path)}, here.app.clock, address="", hook_token="p")
        mail.start()
        await mail.close()
    assert "there is no program 'gog'" in caplog.text
