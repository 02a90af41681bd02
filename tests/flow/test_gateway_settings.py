"""Settings of the gateway that keep people and tools out, in front of a whole program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from gateway.host import TOKEN
from gateway.whole import Place, place

AUTH = {"Authorization": f"Bearer {TOKEN}"}


def client(gateway: Place, **headers: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(f"http://127.0.0.1:{gateway.server.port}", headers={**AUTH, **headers})


async def invoke(gateway: Place, tool: str, args: dict[str, Any]) -> tuple[int, bool]:
    """What HTTP answers, and whether the method says yes."""
    async with client(gateway) as http, http.post("/tools/invoke", json={"tool": tool, "args": args}) as answer:
        status = answer.status
    said = await gateway.call("tools.invoke", name=tool, args=args)
    return status, said["ok"]


async def test_gateway_tools_deny_and_allow(tmp_path: Path) -> None:
    add = {"action": "list"}
    async with place(tmp_path / "usual") as gateway:
        assert await invoke(gateway, "ls", {}) == (200, True)
        assert await invoke(gateway, "cron", add) == (404, False)
    rules = {"deny": ["ls", "group:memory", "bash"], "allow": ["cron", "exec", "ls"]}
    async with place(tmp_path / "told", gateway={"tools": rules}) as gateway:
        assert await invoke(gateway, "ls", {}) == (404, False), "deny goes before allow"
        assert await invoke(gateway, "LS ", {}) == (404, False), "however it is spelled"
        assert await invoke(gateway, "memory_search", {"query": "x"}) == (404, False)
        assert await invoke(gateway, "exec", {"command": "true"}) == (404, False), "bash is another name of it"
        assert await invoke(gateway, "cron", add) == (200, True), "allow takes it off the list of what never is"


async def pages(gateway: Place, *paths: str) -> list[int]:
    async with client(gateway) as http:
        return [(await http.get(path)).status for path in paths]


async def test_without_the_control_ui_no_page_is_served(tmp_path: Path) -> None:
    paths = ("/", "/chat/x", "/favicon.svg", "/control-ui-config.json", "/avatar/main?meta=1")
    async with place(tmp_path / "usual") as gateway:
        assert await pages(gateway, *paths) == [200] * 5
    async with place(tmp_path / "told", gateway={"controlUi": {"enabled": False}}) as gateway:
        assert await pages(gateway, *paths, "/healthz", "/v1/models") == [404] * 5 + [200, 200]


async def test_the_page_stands_under_its_base_path(tmp_path: Path) -> None:
    async with place(tmp_path, gateway={"controlUi": {"basePath": "pal/ui/"}}) as gateway:
        assert await pages(gateway, "/", "/chat", "/pal", "/pal/uix", "/favicon.svg") == [404] * 5
        assert await pages(gateway, "/pal/ui", "/pal/ui/", "/pal/ui/chat/x", "/pal/ui/favicon.svg") == [200] * 4
        assert await pages(gateway, "/healthz", "/v1/models", "/pal/ui/v1/models") == [200, 200, 404]
        async with client(gateway) as http:
            told = await (await http.get("/pal/ui/control-ui-config.json")).json()
            body = await (await http.get("/pal/ui/chat")).text()
        assert told["basePath"] == "/pal/ui"
        assert '="/pal/ui/favicon.svg"' in body and '="/app-' not in body


async def guess(gateway: Place, **headers: str) -> int:
    """A wrong token, on a connection of its own."""
    async with client(gateway, Authorization="Bearer wrong", **headers) as http:
        return (await http.get("/v1/models")).status


async def test_auth_rate_limit(tmp_path: Path) -> None:
    limits = {"maxAttempts": 3, "windowMs": 10_000, "lockoutMs": 300_000}
    async with place(tmp_path / "told", gateway={"auth": {"rateLimit": limits}}) as gateway:
        assert [await guess(gateway) for _ in range(5)] == [401, 401, 401, 429, 429]
        async with client(gateway, Authorization="Bearer wrong") as http:
            answer = await http.get("/v1/models")
        assert answer.status == 429 and 200 < int(answer.headers["Retry-After"]) <= 301, "longer than the window"
        async with client(gateway) as http:  # a long token cannot be guessed: who has it is let in, whatever others try
            assert (await http.get("/v1/models")).status == 200


async def test_auth_rate_limit_exempts_loopback_but_no_web_page(tmp_path: Path) -> None:
    limits = {"maxAttempts": 3, "exemptLoopback": True}
    async with place(tmp_path, gateway={"auth": {"rateLimit": limits}}) as gateway:
        assert [await guess(gateway) for _ in range(5)] == [401] * 5
        own = f"http://127.0.0.1:{gateway.server.port}"
        assert [await guess(gateway, Origin=own) for _ in range(5)] == [401, 401, 401, 429, 429]
        assert await guess(gateway) == 401, "a page that guesses locks nobody else out"
