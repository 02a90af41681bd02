"""Whole conversations on Discord: what people there saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channels.discord.scene import running
from channels.scene import texts, until
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.discord.state import GROUP, GUILD, ROLE
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.speech import FakeSpeech, make_opus


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as made:
        yield made


async def test_a_direct_conversation(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello **you**."), say("Fine.")])
    async with running(tmp_path / "h", discord, model) as app:
        await discord.say("hello")
        await until(lambda: texts(discord) == ["Hello you."])
        await discord.say("how are you?")
        await until(lambda: texts(discord) == ["Hello you.", "Fine."])
        assert app.channels["discord"].status().me == "pal"
    assert [m.text for m in model.requests[-1].messages] == ["hello", "Hello **you**.", "how are you?"]


async def test_in_a_server_it_answers_when_it_is_meant(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    async with running(tmp_path / "h", discord, model):
        await discord.say("nice weather", chat="group", sender="friend")
        await discord.say("and you?", chat="group", mention=True)
        await until(lambda: texts(discord, "group") == ["one"])
        first = discord.visible_messages("group")[0].message_id
        await discord.say("sure?", chat="group", message_reference={"message_id": first})
        await until(lambda: texts(discord, "group") == ["one", "two"])
        await discord.say(f"<@&{ROLE}> really?", chat="group")
        await until(lambda: texts(discord, "group") == ["one", "two", "three"])
    assert len(model.requests) == 3 and texts(discord) == []
    assert "<@" not in model.requests[0].messages[-1].text


async def test_a_thread_is_a_conversation_of_its_own(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("in the channel"), say("in the thread")])
    old = discord.world.thread(GROUP, "plans")["id"]
    async with running(tmp_path / "h", discord, model):
        await discord.say("here", chat="group", mention=True)
        await until(lambda: texts(discord, "group") == ["in the channel"])
        await discord.say("there", chat=old, mention=True)
        await until(lambda: texts(discord, old) == ["in the thread"])
    assert len(model.requests[-1].messages) == 1  # nothing of the channel's history


async def test_a_thread_nobody_told_us_of_is_asked_about(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("found")])
    async with running(tmp_path / "h", discord, model):
        new = discord.world.thread(GROUP, "silent")["id"]
        await discord.say("psst", chat=new, mention=True)
        await until(lambda: texts(discord, new) == ["found"])
    assert f"GET /channels/{new}" in discord.world.calls


async def test_a_long_answer_comes_in_parts_in_order(discord: FakeDiscord, tmp_path: Path) -> None:
    words = "\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(20))
    async with running(tmp_path / "h", discord, ScriptedModel([say(words)])):
        await discord.say("tell me all")
        await until(lambda: "Paragraph 19" in "".join(texts(discord)))
    assert len(texts(discord)) > 2 and all(len(one) <= 2000 for one in texts(discord))
    assert "".join("".join(texts(discord)).split()) == "".join(words.split())


async def test_files_come_in(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("a fine note")])
    async with running(tmp_path / "h", discord, model):
        await discord.say("read this", files=[("note.txt", "text/plain", b"remember the milk")])
        await until(lambda: texts(discord) == ["a fine note"])
    kept = [file.read_bytes() for file in (tmp_path / "h" / "media").rglob("*note.txt")]
    assert kept and set(kept) == {b"remember the milk"}
    assert "note.txt" in model.requests[0].messages[-1].text


async def test_files_that_cannot_be_had_are_told_in_words(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("I see")])
    async with running(tmp_path / "h", discord, model, {"mediaMaxMb": 1}):
        big, gone = ("big.bin", "", b"x" * 1_100_000), ("gone.txt", "text/plain", b"")
        discord.world.lost.add("gone.txt")
        await discord.say("look", files=[big, gone])
        await until(lambda: texts(discord) == ["I see"])
    text = model.requests[0].messages[-1].text
    assert "big.bin is larger than 1 MB" in text and "gone.txt could not be fetched" in text


async def test_files_go_out(discord: FakeDiscord, tmp_path: Path) -> None:
    chart = tmp_path / "h" / "workspace" / "chart.txt"
    trust = {"trustFrom": ["discord:*"]}
    async with running(tmp_path / "h", discord, ScriptedModel([say(f"Here.\nMEDIA: {chart}")]), tools=trust) as app:
        assert str(chart.parent) == app.settings.agents["main"].workspace
        chart.write_text("1 2 3")
        await discord.say("draw")
        await until(lambda: discord.visible_messages())
    assert [(one.text, one.media) for one in discord.visible_messages()] == [("Here.", ("chart.txt",))]
    assert b"1 2 3" in discord.world.files.values()


async def test_a_native_command_is_a_message_and_is_acknowledged(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, ScriptedModel([])):
        await until(lambda: discord.world.commands)
        assert {"help", "status"} <= {one["name"] for one in discord.world.commands}
        await discord.command("status")
        await until(lambda: discord.visible_messages() and discord.world.answers)
    ((_, answer),) = discord.world.answers
    assert answer["type"] == 4 and answer["data"]["flags"] == 64 and "/status" in answer["data"]["content"]
    assert len(discord.visible_messages()) == 1


async def test_the_menu_is_sent_only_when_it_changed(discord: FakeDiscord, tmp_path: Path) -> None:
    for _ in range(2):
        async with running(tmp_path / "h", discord, ScriptedModel([])) as app, asyncio.timeout(60):
            while await app.store.get_record("channel", "discord/default/menu") is None:
                await asyncio.sleep(0.005)
    assert sum(call.startswith("PUT /applications") for call in discord.world.calls) == 1
    async with running(tmp_path / "h", discord, ScriptedModel([]), {"commands": {"native": False}}):
        await until(lambda: discord.world.commands == [])


async def test_roles_and_server_choose_the_agent(discord: FakeDiscord, tmp_path: Path) -> None:
    human = discord.world.person("human")["id"]
    discord.world.roles[human] = ["77"]
    agents = {
        "defaults": {"model": {"primary": "fake/m"}},
        "list": [{"id": "main", "default": True}, {"id": "crew", "name": "Crew"}],
    }
    bindings = [{"agentId": "crew", "match": {"channel": "discord", "guildId": GUILD, "roles": ["77"]}}]
    async with running(
        tmp_path / "h", discord, ScriptedModel([say("aye"), say("hello")]), agents=agents, bindings=bindings
    ) as app:
        await discord.say("ahoy", chat="group", mention=True)
        await until(lambda: texts(discord, "group") == ["aye"])
        await discord.say("hi", chat="group", sender="friend", mention=True)
        await until(lambda: texts(discord, "group") == ["aye", "hello"])
        assert app is not None
    sessions = {path.parent.parent.name for path in (tmp_path / "h" / "agents").glob("*/sessions/*.jsonl")}
    assert sessions == {"crew", "main"}


async def test_an_answer_grows_in_one_message(discord: FakeDiscord, tmp_path: Path) -> None:
    gate = StreamGate()
    whole = "The first sentence is here. The second one is here too, and with it all is said."
    model = ScriptedModel([hold_at(say(whole), gate, 6)])
    async with running(tmp_path / "h", discord, model, {"streaming": "partial"}):
        await discord.say("tell me")
        await gate.wait_reached()
        await until(lambda: len(texts(discord)) == 1)
        (draft,) = discord.visible_messages()
        assert len(draft.text) >= 30 and whole.startswith(draft.text) and draft.text != whole
        gate.open()
        await until(lambda: texts(discord) == [whole])
    (final,) = discord.visible_messages()
    assert final.message_id == draft.message_id


async def test_people_see_that_an_answer_is_coming(discord: FakeDiscord, tmp_path: Path) -> None:
    gate = StreamGate()
    async with running(tmp_path / "h", discord, ScriptedModel([hold_at(say("here"), gate, 0)]), {"ackReaction": "👀"}):
        asked = await discord.say("hello", chat="group", mention=True)
        await gate.wait_reached()
        await until(lambda: GROUP in discord.world.typed)
        await until(lambda: discord.world.message(GROUP, asked).get("reactions"))
        gate.open()
        await until(lambda: texts(discord, "group") == ["here"])
    assert discord.world.message(GROUP, asked)["reactions"][0]["emoji"]["name"] == "👀"


async def test_two_bots_are_two_accounts(discord: FakeDiscord, tmp_path: Path) -> None:
    accounts = {"default": {}, "broken": {"token": "wrong"}}
    async with running(tmp_path / "h", discord, ScriptedModel([say("hi")]), {"accounts": accounts}, waits=False) as app:
        one = app.channels["discord"].all
        await until(lambda: one["default"].status().state == "ready")
        await until(lambda: one["broken"].status().state == "signed_out")
        await discord.say("hello")
        await until(lambda: texts(discord) == ["hi"])


@pytest.mark.parametrize("required", [True, False])
async def test_files_that_pass_by_in_a_server_are_not_fetched(
    discord: FakeDiscord, tmp_path: Path, required: bool
) -> None:
    """Unless every message there counts."""
    model = ScriptedModel([say("ok")], repeat=True)
    async with running(tmp_path / "h", discord, model, {"groups": {"*": {"requireMention": required}}}):
        await discord.say("look", chat="group", files=[("cat.txt", "text/plain", b"meow")])
        if required:
            await discord.say("and?", chat="group", mention=True)
        await until(lambda: texts(discord, "group") == ["ok"])
    assert any((tmp_path / "h").rglob("*cat.txt")) is not required
    assert "cat.txt" in model.requests[0].messages[-1].text


async def test_a_voice_message_as_discord_wants_it(discord: FakeDiscord, tmp_path: Path) -> None:
    model = ScriptedModel([say("Listen to what I say.")])
    async with FakeSpeech(make_opus(3, (10, 100, 50))) as voice:
        section = {"auto": "always", "provider": "mine", "providers": {"mine": {"baseUrl": voice.url}}}
        async with running(tmp_path / "h", discord, model, tts=section):
            await discord.say("hello")
            await until(lambda: len(discord.visible_messages("")) == 2)
    (spoken,) = (one for many in discord.world.messages.values() for one in many if one["attachments"])
    (file,) = spoken["attachments"]
    assert spoken["flags"] == 1 << 13 and spoken["content"] == ""
    assert file["duration_secs"] == 3.0 and file["waveform"] == "Gf9/"


async def test_a_channel_says_for_itself_whether_its_menu_has_commands(discord: FakeDiscord, tmp_path: Path) -> None:
    section = {"commands": {"native": True}}
    async with running(tmp_path / "a", discord, ScriptedModel([]), section, commands={"native": False}):
        await until(lambda: discord.world.commands)
    calls = len(discord.world.calls)
    async with running(tmp_path / "b", discord, ScriptedModel([say("hi")]), {}, commands={"native": False}):
        await discord.say("hello")
        await until(lambda: discord.visible_messages())
    assert not any(call.startswith("PUT /applications") for call in discord.world.calls[calls:])
