"""`mcp.servers`: what people write, and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.sections.mcp import McpSettings


def made(home: Path, servers: Any, environ: dict[str, str] | None = None) -> tuple[McpSettings, list[str]]:
    (home / "palinurus.json").write_text(json.dumps({"mcp": {"servers": servers}}))
    loaded = load_config(str(home), environ or {})
    return loaded.settings.mcp, [f"{p.path}: {p.message}" for p in loaded.problems]


def test_a_program_as_desktop_clients_write_it(tmp_path: Path) -> None:
    body = {"command": "npx", "args": ["-y", "@x/server", 5], "env": {"TOKEN": "${SECRET}", "N": 3, "B": True}}
    found, told = made(tmp_path, {"files": body}, {"SECRET": "s3cret"})
    server = found.servers["files"]
    assert (server.command, server.args, server.wires) == ("npx", ("-y", "@x/server", "5"), ("stdio",))
    assert {k: v.reveal() for k, v in server.env.items()} == {"TOKEN": "s3cret", "N": "3", "B": "true"}
    assert server.contained and server.enabled and server.hints and told == []
    assert "s3cret" not in repr(found)


def test_an_address_with_secrets_by_reference(tmp_path: Path) -> None:
    body = {"url": "https://h.example/mcp?key=k3y", "headers": {"Authorization": {"source": "env", "id": "T"}}}
    found, _ = made(tmp_path, {"far": body}, {"T": "t0ken"})
    server = found.servers["far"]
    assert server.headers["Authorization"].reveal() == "t0ken" and server.wires == ("http", "sse")
    assert server.place == "https://h.example/mcp"
    assert "k3y" not in repr(found) and "t0ken" not in repr(found)
    found, told = made(tmp_path, {"far": body})
    assert any("T is not set" in line for line in told) and not found.servers["far"].headers["Authorization"]


def test_a_company_in_between(tmp_path: Path) -> None:
    oauth = {"grant": "enterprise", "assertionFile": "~/id", "idpTokenUrl": "https://id.example/t", "idpClientId": "c"}
    found, told = made(tmp_path, {"x": {"url": "https://h/", "oauth": oauth}}, {"HOME": "/home/her"})
    said = found.servers["x"].oauth
    assert said.assertion_file == "/home/her/id" and told == []
    assert (said.grant, said.idp_url, said.idp_client) == ("enterprise", "https://id.example/t", "c")


@pytest.mark.parametrize(
    ("word", "wires"),
    [("streamable-http", ("http",)), ("http", ("http",)), ("sse", ("sse",)), ("streamableHttp", ("http",))],
)
def test_words_for_transports(tmp_path: Path, word: str, wires: tuple[str, ...]) -> None:
    for key in ("transport", "type"):
        found, told = made(tmp_path, {"x": {"url": "http://h/", key: word}})
        assert found.servers["x"].wires == wires and told == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "is not an http or https address"),
        ({"url": "file:///etc/passwd"}, "is not an http or https address"),
        ({"url": "$(touch x)"}, "is not an http or https address"),
        ({"url": "http://h/", "transport": "carrier-pigeon"}, "is no transport"),
        ({"transport": "stdio"}, "names no command"),
        ("npx", "expected an object"),
    ],
)
def test_what_cannot_be_used_is_told_and_left_out(tmp_path: Path, body: Any, words: str) -> None:
    found, told = made(tmp_path, {"x": body, "good": {"command": "a"}})
    assert list(found.servers) == ["good"] and any(words in line for line in told)


def test_a_setting_that_is_misspelt_is_told(tmp_path: Path) -> None:
    _, told = made(tmp_path, {"x": {"command": "a", "arg": []}})
    assert told == ["mcp.servers.x.arg: unknown key"]


def test_limits_and_the_cell(tmp_path: Path) -> None:
    body = {
        "command": "a",
        "connectionTimeoutMs": 1500,
        "requestTimeoutMs": 250,
        "disabled": True,
        "sandbox": {"read": ["~/notes"], "write": ["/data"]},
        "trustHints": False,
    }
    found, _ = made(tmp_path, {"x": body, "free": {"command": "b", "sandbox": False}}, {"HOME": "/home/u"})
    one = found.servers["x"]
    assert (one.start, one.timeout, one.enabled, one.hints) == (1.5, 0.25, False, False)
    assert (one.read, one.write, one.contained) == (("/home/u/notes",), ("/data",), True)
    assert not found.servers["free"].contained
