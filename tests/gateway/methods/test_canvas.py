"""canvas.*: who may look and act, addresses that end, and what comes of an action."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from flow.test_app import until
from gateway.whole import Place, gathered, place
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.gateway.rpc import READ, WRITE, MethodError
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.canvas.board import LASTS
from palinurus.tools.canvas.offer import BRIDGE, CanvasOffer

MAIN = "agent:main:main"
pytestmark = pytest.mark.skipif(not os.path.isfile(BRIDGE), reason="the web page is not built: make web")


async def show(here: Place, **change: Any) -> None:
    """A conversation that shows something."""
    if await here.app.store.session(MAIN) is None:
        await here.say("hello", "first")
    change = {"html": "<h1>x</h1>", "shown": True, **change}
    await here.app.canvas.board.change(MAIN, lambda old: replace(old, **change), "present")


async def fetch(here: Place, path: str, **headers: str) -> tuple[int, str, str]:
    """(status, policy, body)."""
    address = f"http://127.0.0.1:{here.server.port}{path}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as http, http.get(address, headers=named) as answer:
        return answer.status, answer.headers.get("Content-Security-Policy", ""), await answer.text()


async def test_nothing_is_shown_before_something_is_presented_nor_after_a_new_conversation(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("hi")], repeat=True)) as here:
        assert await here.call("canvas.get") == {"sessionKey": MAIN, "shown": False, "revision": 0}
        refused = await here.refused("canvas.action", sessionKey=MAIN, id="a" * 8, name="go")
        assert "not shown" in refused.message
        await show(here)
        assert (await here.call("canvas.get"))["shown"]
        await here.call("sessions.reset", key="main", reason="new")
        assert not (await here.call("canvas.get"))["shown"]


async def test_an_address_opens_one_canvas_until_it_ends_or_is_taken_back(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("hi")], repeat=True)) as here:
        folder = Path(here.app.settings.agents["main"].workspace) / "canvas"
        folder.mkdir(parents=True)
        (folder / "a.css").write_text("p {}")
        (folder / "a.exe").write_text("x")
        (folder.parent / "MEMORY.md").write_text("mine")
        (folder / "up.txt").symlink_to(folder.parent / "MEMORY.md")
        (folder.parent / "beside.txt").write_text("mine")  # of a type that pages may use
        root, name = here.app.canvas.board.find_root(str(folder.parent))
        await show(here, root=root, folder=name)
        path = (await here.call("canvas.get"))["path"]
        status, policy, body = await fetch(here, path)
        assert status == 200 and body.endswith("<h1>x</h1>") and policy.startswith("sandbox allow-scripts allow-forms;")
        assert "allow-same-origin" not in policy and "connect-src 'none'" in policy
        status, policy, body = await fetch(here, path, Sec_Fetch_Dest="document")
        assert status == 200 and "<h1>x</h1>" not in body and 'sandbox="allow-scripts allow-forms"' in body
        tries = {"a.css": 200, "a.exe": 404, "up.txt": 404, "../MEMORY.md": 404, "..%2fMEMORY.md": 404, "no.css": 404}
        tries |= dict.fromkeys(("..%2fbeside.txt", "x/..%2f../..%2fbeside.txt", "%2e%2e/beside.txt"), 404)
        assert {name: (await fetch(here, path + name))[0] for name in tries} == tries
        assert (await fetch(here, path + "a.css", Origin="null"))[0] == 200
        assert (await fetch(here, "/health", Origin="null"))[0] == 403
        assert (await fetch(here, path, Origin="null", Upgrade="websocket", Connection="Upgrade"))[0] == 403
        token = path.split("/")[3]
        for wrong in (token[:-1] + "0g"[token[-1] == "0"], token.replace(".", ".f", 1), "0" * 24 + token[24:]):
            assert (await fetch(here, path.replace(token, wrong)))[0] == 404
        later = FakeClock(here.app.clock.now() + LASTS + 1000)
        assert await here.app.canvas.board.open_address(token) is not None
        old = CanvasOffer(here.app.settings, here.app.store, later, lambda: here.app.canvas.browser)
        assert await old.board.open_address(token) is None
        await show(here, secret="another")
        assert (await fetch(here, path))[0] == 404


async def test_an_action_is_one_message_in_the_canvass_words(tmp_path: Path) -> None:
    model = ScriptedModel([say("hi")], repeat=True)
    async with place(tmp_path / "h", model) as here, here.other(scopes=(READ,)) as reader:
        await show(here, taint=("web https://a.example",))
        params = {"sessionKey": MAIN, "id": "press-0001", "name": "/stop", "context": {"a": "/think high"}}
        with pytest.raises(MethodError):
            await reader.call("canvas.action", params)
        first = await here.call("canvas.action", **params)
        again = await here.call("canvas.action", **params)
        assert (first["status"], again) == ("started", {"runId": first["runId"], "status": "in_flight"})
        await gathered(here.link, lambda frame: frame.get("payload", {}).get("state") == "final")
        assert len(model.requests) == 2
        last = [one for one in model.requests[-1].messages if isinstance(one, UserMessage)][-1]
        assert last.source == "web https://a.example" and "/think high" in last.text
        assert "EXTERNAL_UNTRUSTED_CONTENT" in last.text
        too_much = await here.refused("canvas.action", **{**params, "id": "press-0002", "context": {"a": "x" * 20_000}})
        assert "16000" in too_much.message
        numbers = range(30)
        tried = await asyncio.gather(
            *(here.link.call("canvas.action", {**params, "id": f"many-{n:04}"}) for n in numbers),
            return_exceptions=True,
        )
        assert sum(isinstance(one, MethodError) for one in tried) == 12  # two were pressed before


async def test_what_a_client_without_the_owners_rights_does_there_is_its_word(tmp_path: Path) -> None:
    """As what it says in the chat is: both came as if the owner's own page had said it."""
    steps = [say("hi"), say("ok"), call_tools(("canvas", {"action": "eval", "javaScript": "1"})), say("done")]
    model = ScriptedModel(steps)
    async with place(tmp_path / "h", model) as here, here.other(scopes=(READ, WRITE)) as phone:
        await show(here)
        pressed = {"sessionKey": MAIN, "id": "press-0001", "name": "go", "context": {"a": "send it all"}}
        await phone.call("canvas.action", pressed)
        await until(lambda: len(model.requests) == 2)
        assert model.requests[1].messages[-1].source.startswith("client ")
        await phone.call("canvas.get", {})
        await here.call("chat.send", sessionKey="main", message="ask it", idempotencyKey="second")
        frames = await gathered(phone, lambda f: f.get("event") == "canvas" and f["payload"]["action"] == "eval")
        answer = {"sessionKey": MAIN, "id": frames[-1]["payload"]["id"], "ok": True, "value": "send it all"}
        assert await phone.call("canvas.result", answer) == {"ok": True}
        await until(lambda: len(model.requests) == 4)
        assert model.requests[3].messages[-1].source.startswith("client ")


async def test_a_script_is_answered_by_who_draws_the_canvas_and_nobody_else(tmp_path: Path) -> None:
    steps = [say("hi"), call_tools(("canvas", {"action": "eval", "javaScript": "6 * 7"})), say("done")]
    model = ScriptedModel(steps)
    async with place(tmp_path / "h", model) as here, here.other() as other:
        await show(here)
        await here.call("canvas.get")
        await here.call("chat.send", sessionKey="main", message="ask it", idempotencyKey="second")
        frames = await gathered(
            here.link, lambda frame: frame.get("event") == "canvas" and frame["payload"]["action"] == "eval"
        )
        asked = frames[-1]["payload"]
        assert asked["javaScript"] == "6 * 7"
        answer = {"sessionKey": MAIN, "id": asked["id"], "ok": True, "value": "42"}
        assert await other.call("canvas.result", {**answer, "value": "forged"}) == {"ok": False}
        assert await here.call("canvas.result", **answer) == {"ok": True}
        assert await here.call("canvas.result", **answer) == {"ok": False}
        await gathered(here.link, lambda frame: frame.get("payload", {}).get("state") == "final")
    (result,) = [one for one in model.requests[-1].messages if isinstance(one, ToolResult)]
    assert result.text == "42" and not result.isError
