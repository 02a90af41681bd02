"""Rights travel with the caller on every face: the credential decides, no header does. `rights.txt` is the table: every
HTTP route, every method (tried in test_clients.py), every chat command; here they are tried by every kind of caller.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from flow.test_app import running
from gateway.host import TOKEN
from gateway.whole import Place, place, until_over
from palinurus.core.types.caller import ADMIN, APPROVALS, READ, SCOPES, WRITE, Caller, has_scope
from palinurus.core.types.inbound import Sender, make_sender
from palinurus.gateway.auth import TokenHolder
from palinurus.gateway.methods import METHODS
from palinurus.gateway.routes import ROUTES
from palinurus.inbox.commands.table import TABLE
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from support import inbound

CALLERS = {scope: frozenset({scope}) for scope in sorted(SCOPES)} | {"nothing": frozenset()}
CLAIMS = {
    "x-palinurus-events": "1",
    "x-openclaw-scopes": ADMIN,
    "x-palinurus-scopes": ADMIN,
    "x-openclaw-sender-is-owner": "true",
    "x-openclaw-message-channel": "terminal",
    "x-forwarded-for": "127.0.0.1",
}
REQUESTS = {  # a request for each route, where its pattern alone does not say it
    "hook": "/hooks/x", "channel": "/channels/a/b", "model": "/v1/models/openclaw", "avatar": "/avatar/main",
    "history": "/sessions/agent:main:main/history", "kill": "/sessions/agent:main:main/kill", "page": "/",
    "docs": "/docs/", "response": "/v1/responses/x", "input": "/v1/responses/x/input_items",
    "share": f"/share/{'0' * 32}",
    "cancel": "/v1/responses/x/cancel", "conversation": "/v1/conversations/x", "items": "/v1/conversations/x/items",
    "change": "/v1/conversations/x", "delete": "/v1/conversations/x", "item": "/v1/conversations/x/items/y",
    "add": "/v1/conversations/x/items",
    "push": "/push/news",
    "canvas": f"/__openclaw__/cap/{'0' * 64}/__openclaw__/canvas/",
}  # fmt: skip
TABLE_FILE = Path(__file__).with_name("rights.txt")
# What each command says when it acts, asked with these words. The owner's are refused to everybody else.
WORDS = {"config": "set tools.taint.enabled false", "elevated": "full", "exec": "security=full", "send": "off"}
OWNERS = sorted(name for name, row in TABLE.items() if row.scope == "owner")


@asynccontextmanager
async def gateway(home: Path, **config: Any) -> AsyncIterator[Place]:
    """One where the token `device-SCOPE` has that scope."""
    async with place(home, ScriptedModel([say("a model's answer")], repeat=True), **config) as site:
        known = {f"device-{name}": TokenHolder(f"d-{name}", scopes) for name, scopes in CALLERS.items()}
        site.server.auth.holder = known.get
        yield site


@asynccontextmanager
async def caller(site: Place, secret: str, **headers: str) -> AsyncIterator[aiohttp.ClientSession]:
    every = {"Authorization": f"Bearer {secret}", **headers}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{site.server.port}", headers=every) as session:
        yield session


def list_rows() -> Iterator[tuple[str, str]]:
    """Every way to ask for something, and the scope it needs, as the program has it. "open": whoever gets here, with a
    check of its own where one is needed (a hook's key, a platform's signature)."""
    for route in ROUTES:
        yield f"{route.method} {route.pattern.pattern}", route.scope or "open"
    for name, method in METHODS.items():
        yield f"method {name}", method.scope or "connected"
    for name, row in TABLE.items():
        yield f"command /{name}", row.scope


def test_nothing_can_be_asked_for_that_the_table_does_not_know() -> None:
    """The table is what was decided; a new route, method or command, or another scope for an old one, is a decision."""
    said = dict(line.rsplit(" ", 1) for line in TABLE_FILE.read_text().splitlines() if line and line[0] != "#")
    found = dict(list_rows())
    assert said == found, f"decide about each, then write its line into {TABLE_FILE.name}"


async def test_every_route_asks_the_credential_and_nothing_else(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h") as site:
        for name, scopes in CALLERS.items():
            for claims in ({}, CLAIMS):
                async with caller(site, f"device-{name}", **claims) as http:
                    for route in ROUTES:
                        path = REQUESTS.get(route.name) or route.pattern.pattern.partition("|")[0].replace("\\", "")
                        assert route.pattern.fullmatch(path), f"a request for {route.name} is missing in REQUESTS"
                        may = has_scope(scopes, route.scope)
                        async with http.request(route.method, path, data=b"{}") as answer:
                            told = f"{name} {route.method} {path} {answer.status}"
                            assert (answer.status == 403) is not may, told
                            assert answer.status != 401 or route.scope is None, told


async def test_no_header_opens_what_the_config_switched_off(tmp_path: Path) -> None:
    off = {"http": {"endpoints": {"chatCompletions": {"enabled": False}}}}
    async with gateway(tmp_path / "h", gateway=off) as site:
        for secret in (TOKEN, f"device-{WRITE}"):
            async with caller(site, secret, **CLAIMS) as http, http.post("/v1/chat/completions", json=HELLO) as answer:
                assert answer.status == 404


HELLO: dict[str, Any] = {"model": "openclaw", "messages": [{"role": "user", "content": "hello"}]}
HTTP = {"gateway": {"http": {"endpoints": {"chatCompletions": {"enabled": True}, "responses": {"enabled": True}}}}}


def body(path: str, text: str) -> dict[str, Any]:
    return {"model": "openclaw", "input": text} if path.endswith("responses") else {**HELLO, "messages": _user(text)}


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_no_command_acts_over_http_whatever_the_headers_say(tmp_path: Path, path: str) -> None:
    """A program's request means what it says, also when it begins with a slash: the model answers it."""
    home = tmp_path / "h"
    async with place(home, ScriptedModel([say("a model's answer")], repeat=True), **HTTP) as site:
        site.server.auth.holder = {"device": TokenHolder("d", frozenset({READ, WRITE}))}.get
        before = (home / "palinurus.json").read_bytes()
        for name in TABLE:
            async with caller(site, "device", **CLAIMS, **{"x-openclaw-session-key": "agent:main:x"}) as http:
                async with http.post(path, json=body(path, f"/{name} {WORDS.get(name, '')}".strip())) as answer:
                    assert answer.status == 200 and "a model's answer" in await answer.text(), name
        assert (home / "palinurus.json").read_bytes() == before


async def test_the_terminals_route_is_the_owners_alone(tmp_path: Path) -> None:
    headers = {"x-openclaw-session-key": "agent:main:main", "Idempotency-Key": str(uuid.uuid4())}
    async with gateway(tmp_path / "h") as site:
        for name, scopes in CALLERS.items():
            async with caller(site, f"device-{name}", **CLAIMS, **headers) as http:
                async with http.post("/reach/turn", json={**HELLO, "messages": _user("/whoami")}) as answer:
                    assert answer.status == (200 if has_scope(scopes, ADMIN) else 403), name
        async with caller(site, TOKEN, **headers) as http:
            async with http.post("/reach/turn", json={**HELLO, "messages": _user("/whoami"), "stream": True}) as answer:
                assert "owner" in await answer.text()


@pytest.mark.parametrize("name", OWNERS)
async def test_an_owners_command_as_a_message_of_a_client_that_may_write(tmp_path: Path, name: str) -> None:
    home = tmp_path / "h"
    async with gateway(home) as site, site.other(scopes=(READ, WRITE)) as link:
        before = (home / "palinurus.json").read_bytes()
        text = f"/{name} {WORDS.get(name, '')}".strip()
        await link.call("chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": "r"})
        told = str([frame["payload"] for frame in await until_over(link, "r")])
        assert "owner" in told and "a model's answer" not in told
        assert (home / "palinurus.json").read_bytes() == before


def client(*scopes: str) -> Sender:
    return make_sender(Caller("device:d", frozenset(scopes), "device", device="d"))


# Who may write a message, from whatever face, and which of the commands that change rights act for them.
SENDERS: dict[str, tuple[Sender, set[str]]] = {
    "the owner in a chat": (Sender("1", owner=True), {"owner", "approve"}),
    "a client with admin": (client(ADMIN), {"owner", "approve"}),
    "a client with approvals": (client(WRITE, APPROVALS), {"approve"}),
    "a client that may write": (client(WRITE), set()),
    "a client that may read": (client(READ), set()),
    "a member": (Sender("2", allowed=True), set()),
    "a stranger": (Sender("3"), set()),
    "a hook": (make_sender(Caller("hook:x", how="hook")), set()),
}


@pytest.mark.parametrize("who", SENDERS)
async def test_a_command_acts_for_whom_the_table_says(tmp_path: Path, who: str) -> None:
    home = tmp_path / "h"
    sender, may = SENDERS[who]
    async with running(home, ScriptedModel([say("a model's answer")], repeat=True), FakeChannel()) as app:
        before = (home / "palinurus.json").read_bytes()
        for name in (*OWNERS, "approve"):
            text = f"/{name} {WORDS.get(name, '')}".strip()
            sent = inbound(text, sender=sender, session=f"agent:main:{name}", event=name)
            row = await app.wait((await app.submit(sent)).id)
            acts = ("approve" if name == "approve" else "owner") in may
            denied = row.note == "a model's answer" or "owner only" in row.note or "only the owner" in row.note.lower()
            assert denied is not acts, f"{who} /{name}: {row.note}"
        assert ((home / "palinurus.json").read_bytes() != before) is ("owner" in may)
