"""Following and changing sessions over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.whole import KEY, Place, gathered, named, place, until_over
from palinurus.gateway.rpc import READ, WRITE, MethodError
from palinurus.testing.model import ScriptedModel, say


async def test_followers_hear_of_every_change_with_the_row(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.call("sessions.subscribe")
        await here.say("first", "k1")
        frames = await gathered(
            here.link, lambda f: f["event"] == "sessions.changed" and f["payload"].get("phase") == "end"
        )
        await here.call("sessions.patch", key="main", thinkingLevel="off", label="home")
        patched = named(await gathered(here.link, lambda f: f["payload"].get("reason") == "patch"), "sessions.changed")
        made = await here.call("sessions.create", parentSessionKey="main", label="child")
        await gathered(here.link, lambda f: f["payload"].get("reason") == "create")
        await here.call("sessions.delete", key=made["key"])
        (gone,) = named(
            await gathered(here.link, lambda f: f["payload"].get("reason") == "delete"), "sessions.changed"
        )[-1:]
        await here.call("sessions.unsubscribe")
        quiet = await here.say("second", "k2")
    assert all("seq" not in f for f in frames if f["event"].startswith("session"))
    assert patched[-1]["label"] == "home" and patched[-1]["session"]["key"] == KEY
    assert set(gone) == {"sessionKey", "reason", "ts"}
    assert named(quiet, "sessions.changed") == []


@pytest.mark.seed(129, 130)
async def test_changes_need_admin_and_are_refused_in_the_words_clients_match(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([])) as here, here.other(scopes=(READ, WRITE)) as writer:
        assert (await here.refused("sessions.patch", key="main", nothing=1)).message == (
            "invalid sessions.patch params: at root: unexpected property 'nothing'"
        )
        bad = await here.refused("sessions.patch", key="main", thinkingLevel="sideways")
        assert bad.message.startswith("invalid thinkingLevel (use off")
        assert (await here.refused("sessions.patch", key="main", verboseLevel="loud")).message == (
            "invalid verboseLevel (use on|off|full)"
        )
        with pytest.raises(MethodError, match=r"missing scope: operator\.admin"):
            await writer.call("sessions.patch", {"key": "main", "label": "x"})
        done = await here.call("sessions.patch", key="main", thinkingLevel="off", fastMode=True, verboseLevel="full")
        assert done["entry"]["verboseLevel"] == "full" and done["resolved"]["model"] == "m"
        row = (await here.call("sessions.list", search="main"))["sessions"][0]
        assert row["fastMode"] is True and "off" in row["thinkingOptions"] and row["thinkingLevel"] == "off"


async def test_beginning_a_session_changes_none_that_is_there(tmp_path: Path) -> None:
    """Who may only write could have set the owner's own conversation to `full`: sessions.create patched it."""
    async with place(tmp_path / "h", ScriptedModel([say("one")])) as here, here.other(scopes=(READ, WRITE)) as writer:
        await here.say("first", "k1")
        tries: list[dict[str, Any]] = [{"key": "main", "permissionMode": "full"}, {"key": "main", "label": "x"}]
        tries += [{"permissionMode": "full"}, {"fork": True, "parentSessionKey": "main", "permissionMode": "full"}]
        for asked in tries:
            with pytest.raises(MethodError, match=r"missing scope: operator\.admin"):
                await writer.call("sessions.create", asked)
        row = (await here.call("sessions.list"))["sessions"]
        assert [(one["key"], one.get("label"), one.get("permissionMode")) for one in row] == [(KEY, None, None)]
        assert (await writer.call("sessions.create", {"key": "main"}))["key"] == KEY  # as ever: there, or made
        made = await writer.call("sessions.create", {"label": "mine", "thinkingLevel": "off"})
        assert made["entry"]["label"] == "mine"
        assert (await here.call("sessions.create", key="main", permissionMode="ask"))["entry"][
            "permissionMode"
        ] == "ask"


async def test_a_branch_goes_its_own_way(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two"), say("other")])) as here:
        await here.say("first", "k1")
        await here.say("second", "k2")
        messages = (await here.call("chat.history", sessionKey="main"))["messages"]
        made = await here.call("sessions.branch", key="main", entryId=messages[2]["__openclaw"]["id"])
        await here.say("instead", "k3", made["key"])
        told = (await here.call("chat.history", sessionKey=made["key"]))["messages"]
        old = (await here.call("chat.history", sessionKey="main"))["messages"]
        preview = (await here.call("sessions.preview", keys=["main", "nobody"]))["previews"]
    assert [m["role"] for m in told] == ["user", "assistant"] * 2 and told[2]["content"] == "instead"
    assert [m["content"] for m in old if m["role"] == "user"] == ["first", "second"]
    assert [(p["status"], len(p["items"])) for p in preview] == [("ok", 4), ("missing", 0)]


@pytest.mark.seed(128, 133, 135)
async def test_the_picker_and_the_directive_change_the_same_level(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([])) as here:
        fresh = (await here.call("chat.history", sessionKey="main"))["sessionInfo"]
        levels = [level["id"] for level in fresh["thinkingLevels"]]
        assert "thinkingLevel" not in fresh and {"off", "high"} <= set(levels) and fresh["thinkingOptions"]
        await here.say("/think:high", "k1")
        told = await here.call("chat.history", sessionKey="main")
        assert told["thinkingLevel"] == told["sessionInfo"]["thinkingLevel"] == "high"
        await here.call("sessions.patch", key="main", thinkingLevel="low")
        assert (await here.call("chat.history", sessionKey="main"))["thinkingLevel"] == "low"
        await here.call("sessions.patch", key="main", thinkingLevel=None)
        assert "thinkingLevel" not in await here.call("chat.history", sessionKey="main")


@pytest.mark.seed(94)
async def test_a_client_that_may_only_write_keeps_no_verbose_level(tmp_path: Path) -> None:
    model = ScriptedModel(["ok"], repeat=True)
    async with place(tmp_path / "h", model) as here, here.other(scopes=(READ, WRITE)) as writer:
        for link, kept in ((writer, None), (here.link, "on")):
            run = f"k-{kept}"
            await link.call("chat.send", {"sessionKey": "main", "message": "/verbose on", "idempotencyKey": run})
            last = named(await until_over(link, run), "chat")[-1]["message"]["content"][0]["text"]
            assert last.startswith("Verbose logging enabled.") and ("operator.admin" in last) is (kept is None)
            row = (await here.call("chat.history", sessionKey="main"))["sessionInfo"]
            assert row.get("verboseLevel") == kept


@pytest.mark.seed(131, 143)
async def test_the_picker_is_told_the_level_that_runs_inherit(tmp_path: Path) -> None:
    listed = [{"id": "m", "reasoning": True}, {"id": "own", "reasoning": True}, {"id": "plain", "reasoning": False}]
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": listed}
    shared = {"model": "fake/m", "thinkingDefault": "high", "models": {"fake/own": {"params": {"thinking": "off"}}}}
    agents = {"defaults": shared, "list": [{"id": "main"}, {"id": "terse", "thinkingDefault": "minimal"}]}
    model = ScriptedModel(["ok"], repeat=True)
    async with place(tmp_path / "h", model, models={"providers": {"fake": provider}}, agents=agents) as here:
        for key, ref, used in (
            *(("main", None, "high"), ("main", "fake/own", "off"), ("main", "fake/plain", "off")),
            ("agent:terse:main", None, "minimal"),
        ):
            await here.call("sessions.patch", key=key, model=ref)
            told = await here.call("chat.history", sessionKey=key)
            await here.say("hi", f"{key}-{ref}", key)
            assert told["sessionInfo"]["thinkingDefault"] == used == model.requests[-1].level
            shown = {one["id"]: one["thinkingDefault"] for one in (await here.call("agents.list"))["agents"]}
            assert shown == {"main": "high", "terse": "minimal"}
        assert told["defaults"]["thinkingDefault"] == "minimal"


async def test_what_was_said_is_found_and_requests_without_a_session_are_not_listed(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("The halcyon nests at sea."), say("ok")])) as here:
        await here.say("tell me of birds", "k1")
        stateless = "agent:main:openai:01234567-89ab-cdef-0123-456789abcdef"
        await here.say("a question of a program", "k2", stateless)
        found = await here.call("sessions.search", query="halcyon", limit=5)
        nothing = await here.call("sessions.search", query="albatross")
        listed = [row["key"] for row in (await here.call("sessions.list"))["sessions"]]
        every = [row["key"] for row in (await here.call("sessions.list", includeRequests=True))["sessions"]]
    (hit,) = found["hits"]
    assert hit["key"] == "agent:main:main" and hit["role"] == "assistant" and "halcyon" in hit["text"]
    assert nothing["hits"] == [] and listed == ["agent:main:main"] and sorted(every) == sorted([*listed, stateless])


async def test_all_that_is_found_comes_page_by_page(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("ok")], repeat=True)) as here:
        for number in range(5):
            await here.say(f"halcyon number {number}", f"k{number}")
        pages = [await here.call("sessions.search", query="halcyon", limit=2, offset=at) for at in (0, 2, 4)]
    assert [[hit["text"][-1] for hit in page["hits"]] for page in pages] == [["4", "3"], ["2", "1"], ["0"]]
    assert [page["more"] for page in pages] == [True, True, False]


async def test_keeping_a_conversation_moves_nothing_and_outlives_the_gateway(tmp_path: Path) -> None:
    """Renaming moved a conversation to the top. What happens in one that was put away brings it back."""
    model = ScriptedModel([say("ok")], repeat=True)
    keys = ["agent:main:dashboard:a", "agent:main:dashboard:b", "agent:main:dashboard:c"]

    async def listed(here: Place, **how: Any) -> list[str]:
        return [row["key"][-1] for row in (await here.call("sessions.list", **how))["sessions"]]

    async with place(tmp_path / "h", model) as here:
        for number, key in enumerate(keys):
            await here.say("hello", f"k{number}", key)
        assert await listed(here) == ["c", "b", "a"]
        await here.call("sessions.patch", key=keys[0], label="Ann", pinned=True, tags=["work", " work ", "tax  2026"])
        await here.call("sessions.patch", key=keys[1], archived=True)
        assert await listed(here) == ["c", "a"] and await listed(here, archived="only") == ["b"]
        assert await listed(here, archived="all") == ["c", "b", "a"]
        assert "at most" in (await here.refused("sessions.patch", key=keys[0], tags=list("abcdefghijklm"))).message
    async with place(tmp_path / "h", model) as here:
        assert await listed(here, pinnedFirst=True) == ["a", "c"] and await listed(here, tag="tax 2026") == ["a"]
        told = await here.call("sessions.list", includeFacets=True)
        assert told["tags"] == {"tax 2026": 1, "work": 1} and told["archivedCount"] == 1
        assert told["channels"] == {"web": 3} and await listed(here, channel="telegram") == []
        (row,) = (await here.call("sessions.list", tag="work"))["sessions"]
        assert (row["label"], row["pinned"], row["tags"]) == ("Ann", True, ["work", "tax 2026"]) and row[
            "from"
        ] == "web"
        await here.say("once more", "k9", keys[1])
        assert await listed(here) == ["b", "c", "a"] and await listed(here, archived="only") == []
        await here.call("sessions.patch", key=keys[0], pinned=False, tags=None, label=None)
        assert await listed(here, pinnedFirst=True) == ["b", "c", "a"] and await listed(here, tag="work") == []


async def test_a_session_is_found_by_the_end_of_its_address(tmp_path: Path) -> None:
    """Addresses of OpenClaw 2026.9's page end with the id of a key, or its beginning."""
    async with place(tmp_path / "h", ScriptedModel([])) as here:
        key = (await here.call("sessions.create", label="den"))["key"]
        short = key.rpartition(":")[2].replace("-", "")
        for end in (short, short[:8].upper()):
            assert await here.call("sessions.resolve", shortId=end, agentId="main", allowMissing=True) == {
                "ok": True, "key": key, "agentId": "main",
            }  # fmt: skip
        assert (await here.call("sessions.resolve", reference={"key": key, "slug": "den"}))["key"] == key
        assert await here.call("sessions.resolve", shortId="0" * 32, allowMissing=True) == {"ok": False}
        assert "No session found" in (await here.refused("sessions.resolve", shortId="0" * 32)).message
        assert "invalid sessions.resolve params" in (await here.refused("sessions.resolve", shortId="xyz")).message


async def test_a_page_changes_the_session_that_it_shows_and_no_other(tmp_path: Path) -> None:
    async with place(tmp_path / "h", ScriptedModel([say("one")])) as here:
        made = await here.call("sessions.create", label="den")
        name = {"key": made["key"], "expectedSessionId": made["sessionId"]}
        assert (await here.call("sessions.patch", **name, thinkingLevel="low"))["entry"]["thinkingLevel"] == "low"
        old = {"key": made["key"], "expectedSessionId": "another"}
        for method in ("sessions.patch", "sessions.reset", "sessions.delete"):
            assert "another session has begun" in (await here.refused(method, **old)).message
        assert "not put away" in (await here.refused("sessions.delete", **name, archivedOnly=True)).message
        await here.call("sessions.patch", **name, archived=True)
        assert (await here.call("sessions.delete", **name, archivedOnly=True))["deleted"]


async def test_a_new_session_takes_what_was_chosen_for_it(tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with place(tmp_path / "h", model) as here:
        await here.say("first", "k1")
        chosen = {"thinkingLevel": "low", "permissionMode": "plan", "succeedsParent": False}
        made = await here.call("sessions.create", **chosen)
        assert (made["entry"]["thinkingLevel"], made["entry"]["permissionMode"]) == ("low", "plan")
        forked = await here.call("sessions.create", parentSessionKey="main", fork=True)
        told = (await here.call("chat.history", sessionKey=forked["key"]))["messages"]
        assert [one["role"] for one in told] == ["user", "assistant"] and not forked["runStarted"]
        assert "parentSessionKey" in (await here.refused("sessions.create", fork=True)).message


async def test_what_was_said_is_written_anew_as_openclaws_buttons_mean_it(tmp_path: Path) -> None:
    """Rewind and fork there: to what stands before a message of the person's, whose words come back to be edited."""
    async with place(tmp_path / "h", ScriptedModel([say("one"), say("two")])) as here:
        await here.say("first", "k1")
        await here.say("second", "k2")
        told = (await here.call("chat.history", sessionKey="main"))["messages"]
        mine, answer = told[2]["__openclaw"]["id"], told[3]["__openclaw"]["id"]
        forked = await here.call("sessions.fork", sessionKey="main", agentId="main", entryId=mine)
        rest = (await here.call("chat.history", sessionKey=forked["sessionKey"]))["messages"]
        assert (forked["editorText"], len(rest)) == ("second", 2)
        assert "message of yours" in (await here.refused("sessions.rewind", sessionKey="main", entryId=answer)).message
        assert (await here.call("sessions.rewind", sessionKey="main", entryId=mine))["editorText"] == "second"
        assert len((await here.call("chat.history", sessionKey="main"))["messages"]) == 2
        assert "required property 'entry'" in (await here.refused("sessions.rewind", sessionKey="main")).message
        assert "required property 'key'" in (await here.refused("sessions.fork", entryId=mine)).message
