"""Links for others: what they show, when they end, and that they give nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import aiohttp

from gateway.host import TOKEN
from gateway.whole import Place, place
from palinurus.gateway.keep.shares import build_share_page
from palinurus.gateway.rpc import READ, WRITE, MethodError
from palinurus.testing.model import ScriptedModel, call_tools, say

ON = {"controlUi": {"sharing": True}}
HOSTILE = "<script>alert(1)</script> **bold** [x](javascript:alert(1)) [y](https://a.example/) <img src=x onerror=1>"


async def fetch(here: Place, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{here.server.port}{path}", headers=headers) as answer,
    ):
        return answer.status, dict(answer.headers), await answer.text()


async def test_a_link_shows_what_was_said_until_then_and_nothing_else(tmp_path: Path) -> None:
    script = [
        call_tools(("read", {"path": "secret.txt"}), text="Looking.", thinking="a private thought"),
        say(HOSTILE),
        say("said later"),
    ]
    async with place(tmp_path / "h", ScriptedModel(script), gateway=ON) as here:
        await here.say("look <b>here</b>", "k1")
        made = await here.call("shares.create", key="main", days=3)
        await here.say("not for others", "k2")
        status, headers, page = await fetch(here, made["path"])
        listed = await here.call("shares.list")
        stored = [row.data.decode() + row.key for row in await here.app.store.list_records("share")]
    token = made["path"].rpartition("/")[2]
    assert status == 200 and "look &lt;b&gt;here&lt;/b&gt;" in page and "<strong>bold</strong>" in page
    assert not any(word in page for word in ("<script", "<img", 'href="javascript', "secret.txt", "private thought"))
    assert "said later" not in page and "not for others" not in page and 'href="https://a.example/"' in page
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "sandbox" in policy and "script" not in policy
    assert "noindex" in headers["X-Robots-Tag"] and headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer" and headers["X-Frame-Options"] == "DENY"
    assert len(stored) == 1 and token not in stored[0] and token not in json.dumps(listed)
    assert [share["id"] for share in listed["shares"]] == [made["id"]] and made["expiresAtMs"] > made["createdAtMs"]


async def test_a_link_ends_with_its_time_when_it_is_taken_back_and_with_its_conversation(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("hi")], repeat=True), gateway=ON) as here:
        await here.say("hello", "k1")
        await here.say("hello", "k2", "agent:main:other")
        paths = [(await here.call("shares.create", key=key))["path"] for key in ("main", "main", "agent:main:other")]
        third = await here.call("shares.create", key="agent:main:other")
        assert [(await fetch(here, path))[0] for path in paths] == [200] * 3
        await here.call("shares.revoke", id=third["id"])
        assert (await fetch(here, third["path"]))[0] == 404
        await here.call("sessions.delete", key="agent:main:other")
        assert (await fetch(here, paths[2]))[0] == 404
        store, key = here.app.store, hashlib.sha256(paths[0].rpartition("/")[2].encode()).hexdigest()
        row = await store.get_record("share", key)
        assert row is not None
        await store.put_record("share", key, json.dumps({**json.loads(row.data), "until": 1}).encode())
        assert (await fetch(here, paths[0]))[0] == 404
        assert [(await fetch(here, path))[0] for path in paths[:2]] == [404, 200]
        await here.call("sessions.reset", key="main", reason="new")
        assert (await fetch(here, paths[1]))[0] == 404
        await here.call("shares.list")
        assert await store.get_record("share", key) is None  # what has ended is not kept


async def test_a_link_gives_no_other_right(tmp_path: Path) -> None:
    """Red team: its token as a credential, guesses, other methods, other paths, and links made by who may not."""
    async with place(tmp_path / "h", ScriptedModel([say("hi")], repeat=True), gateway=ON) as here:
        await here.say("hello", "k1")
        path = (await here.call("shares.create", key="main"))["path"]
        token = path.rpartition("/")[2]
        for name, value in (("Authorization", f"Bearer {token}"), ("Cookie", f"token={token}")):
            for asked in ("/v1/models", "/sessions/main/history", "/control-ui-config.json", "/metrics"):
                assert (await fetch(here, asked, **{name: value}))[0] == 401
        wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
        for asked in (f"/share/{wrong}", "/share/", f"/share/{token}/x", f"/share/{token}x", f"/SHARE/{token}"):
            assert (await fetch(here, asked))[0] == 404
        async with aiohttp.ClientSession() as http:
            address = f"http://127.0.0.1:{here.server.port}{path}"
            async with http.post(address) as answer:
                assert answer.status == 405
            async with http.get(address, headers={"Origin": "https://evil.example"}) as answer:
                assert answer.status == 403
        assert (await fetch(here, path, Authorization=f"Bearer {TOKEN}"))[0] == 200
        for scopes in ([READ], [READ, WRITE]):
            async with here.other(scopes=scopes) as link:
                for method, params in (
                    ("shares.create", {"key": "main"}),
                    ("shares.list", {}),
                    ("shares.revoke", {"id": "x"}),
                ):
                    assert "scope" in str(await refusal(link, method, params))


async def refusal(link: Any, method: str, params: dict[str, Any]) -> Any:
    try:
        return await link.call(method, params)
    except MethodError as error:
        return error


async def test_links_are_off_until_the_owner_says_otherwise_and_one_key_ends_them(tmp_path: Path) -> None:
    model = ScriptedModel([say("hi")], repeat=True)
    async with place(tmp_path / "h", model, gateway=ON) as here:
        await here.say("hello", "k1")
        path = (await here.call("shares.create", key="main"))["path"]
        assert (await fetch(here, path))[0] == 200
    async with place(tmp_path / "h", model) as here:
        assert (await fetch(here, path))[0] == 404
        assert "switched off" in (await here.refused("shares.create", key="main")).message
        assert not (await here.call("shares.list"))["enabled"]
    async with place(tmp_path / "h", model, gateway=ON) as here:  # the store has kept it
        assert (await fetch(here, path))[0] == 200


def test_a_title_is_text() -> None:
    assert "<b>" not in build_share_page("<b>x</b>", [])
