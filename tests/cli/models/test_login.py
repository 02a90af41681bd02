"""`pal models login|logout|status`: the whole command against a fake OAuth server, as a person uses it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nursery import Program
from palinurus.cli.models.catalog import describe_signed_in
from palinurus.cli.models.login import read_client
from palinurus.errors import BadRequest
from palinurus.providers.signin.vault import FILE, SignInVault
from palinurus.testing.oauth import EMAIL, FakeOAuth


class Shell:
    """`pal` as a program, beside the fake server of this loop."""

    def __init__(self, home: Path, oauth: FakeOAuth) -> None:
        self.home, self.oauth = home, oauth
        self.out = ""

    def configure(self, provider: str = "lab", **options: Any) -> None:
        self.home.mkdir(exist_ok=True, mode=0o700)
        lab = {"baseUrl": "http://127.0.0.1:9/v1", "signIn": self.oauth.make_config(**options)}
        (self.home / "palinurus.json").write_text(json.dumps({"models": {"providers": {provider: lab}}}))

    async def begin(self, *words: str) -> Program:
        keep = {
            k: v
            for k, v in os.environ.items()
            if not k.endswith("_API_KEY") and k not in ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
        }
        return Program(
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**keep, "PALINURUS_HOME": str(self.home), "HOME": str(self.home.parent)},
        )

    async def read_until(self, process: Program, pattern: str) -> re.Match[str]:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while not (found := re.search(pattern, self.out)):
                data = await asyncio.to_thread(process.stdout.readline)
                assert data, self.out
                self.out += data
        return found

    async def end(self, process: Program) -> int:
        rest, _ = await asyncio.to_thread(process.communicate, timeout=120)
        self.out += rest
        return process.returncode or 0

    async def run(self, *words: str) -> int:
        return await self.end(await self.begin(*words))


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with FakeOAuth() as oauth:
        yield Shell(tmp_path / "h", oauth)


async def test_in_the_browser_then_status_then_out(shell: Shell) -> None:
    shell.configure()
    process = await shell.begin("models", "login", "lab")
    page = (await shell.read_until(process, r"(http://\S+/authorize\S+)"))[1]
    await shell.oauth.browse(page, state="somebody-elses")  # knocks, and is not let in
    await shell.oauth.browse(page)
    assert await shell.end(process) == 0, shell.out
    assert f"signed in to lab as {EMAIL}" in shell.out and "canary" not in shell.out
    assert (shell.home / FILE).stat().st_mode & 0o777 == 0o600
    shell.out = ""
    assert await shell.run("models", "status") == 0
    assert re.search(rf"lab:signed-in \({EMAIL}\)  until \d+-\d+-\d+ .*renewed by itself", shell.out)
    assert await shell.run("models", "logout", "lab") == 0 and "revoked and forgotten" in shell.out
    assert shell.oauth.revoked == ["refresh-canary-0001"] and "canary" not in (shell.home / FILE).read_text()
    assert await shell.run("models", "logout", "lab") != 0 and "nobody is signed in" in shell.out
    assert "canary" not in shell.out.replace("refresh-canary", "") and "access-canary" not in shell.out


async def test_from_another_machine_the_address_is_pasted(shell: Shell) -> None:
    shell.configure()
    process = await shell.begin("models", "login", "lab", "--profile", "work")
    page = (await shell.read_until(process, r"(http://\S+/authorize\S+)"))[1]
    back = await shell.oauth.browse(page, follow=False)
    assert process.stdin is not None
    process.stdin.write(f"http://127.0.0.1/elsewhere\n{back}\n")
    process.stdin.flush()
    await shell.read_until(process, "signed in to lab")
    assert await shell.end(process) == 0 and "holds no code" in shell.out
    assert list(SignInVault(str(shell.home), {}).list_all()) == ["lab:work"]


@pytest.mark.parametrize(
    ("kind", "polls", "words"),
    [
        ("rfc", ["authorization_pending"], "signed in to lab"),
        ("code", [], "signed in to lab"),
        ("rfc", ["access_denied"], "not signed in: the sign-in was refused"),
        ("rfc", ["expired_token"], "not signed in: the code has expired"),
    ],
)
async def test_with_a_code(shell: Shell, kind: str, polls: list[str], words: str) -> None:
    provider = "openai-codex" if kind == "code" else "lab"
    shell.configure(provider, device=kind)
    shell.oauth.polls = list(polls)
    code = await shell.run("models", "login", provider, "--device")
    assert words.replace("lab", provider) in shell.out and (code == 0) == ("not signed" not in words), shell.out
    assert re.search(r"Type   (WDJB-MJHT|ABCD-EFGH)", shell.out) and "canary" not in shell.out


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("anthropic", "do not let other programs use a Claude subscription"),
        ("google", "--client FILE"),
        ("groq", "has no sign-in"),
        ("nobody", "unknown provider"),
    ],
)
async def test_where_one_cannot_sign_in_it_says_what_to_do(shell: Shell, vendor: str, words: str) -> None:
    assert await shell.run("models", "login", vendor) != 0 and words in shell.out


async def test_without_a_name_it_lists_where_one_can(shell: Shell) -> None:
    assert await shell.run("models", "login") == 0
    for name in ("openai-codex", "github-copilot", "google", "anthropic"):
        assert name in shell.out


def test_a_client_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "client.json"
    file.write_text(json.dumps({"installed": {"client_id": "c", "client_secret": "s", "project_id": "p", "x": 1}}))
    assert read_client(str(file)) == {"client_id": "c", "client_secret": "s", "project": "p"}
    for text in ("", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(BadRequest):
            read_client(str(file))


def test_status_says_who_was_signed_out_and_why() -> None:
    row = {
        "id": "lab:me",
        "account": "",
        "expires": 0,
        "renews": True,
        "problem": "",
        "where": "file",
        "provider": "lab",
    }
    assert "as long as" in describe_signed_in([row], 5)[0]
    assert "ended" in describe_signed_in([{**row, "expires": 1}], 5)[0]
    assert "pal models login lab" in describe_signed_in([{**row, "problem": "revoked"}], 5)[0]


async def test_a_tool_server_in_and_out(shell: Shell) -> None:
    """`pal mcp login|status|test|logout`, with the one keeper of tokens."""
    shell.configure()
    servers = {"far": {"url": f"{shell.oauth.url}/mcp", "transport": "http"}}
    (shell.home / "palinurus.json").write_text(json.dumps({"mcp": {"servers": servers}}))
    assert await shell.run("mcp", "test", "far") == 1
    assert "HTTP 401" in shell.out and shell.out.count("`pal mcp login far`") == 1 and "-32603" not in shell.out
    process = await shell.begin("mcp", "login", "far")
    page = (await shell.read_until(process, r"(http://\S+/authorize\S+)"))[1]
    await shell.oauth.browse(page)
    assert await shell.end(process) == 0, shell.out
    assert f"signed in to far as {EMAIL}" in shell.out and "canary" not in shell.out
    shell.out = ""
    assert await shell.run("mcp", "status") == 0 and re.search(rf"mcp:far \({EMAIL}\)  until .*renewed", shell.out)
    assert await shell.run("models", "status") == 0 and shell.out.count("mcp:far") == 1
    assert await shell.run("mcp", "test", "far") == 0 and "far__ping" in shell.out
    assert await shell.run("mcp", "logout", "far") == 0 and "revoked and forgotten" in shell.out
    assert "canary" not in shell.out and "canary" not in (shell.home / FILE).read_text()
