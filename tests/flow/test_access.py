"""Who may speak, through the whole App: what a stranger, a member and the owner can make happen, and see."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, until
from palinurus.app import App
from palinurus.core.types.channel import ChannelAbilities
from palinurus.core.types.inbound import NO_OPTIONS, Attachment, Inbound, MessageQuote, Sender, Target, TurnOptions
from palinurus.core.untrusted import CONTEXT_HEADING, MESSAGE_HEADING
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say

OWNER, MEMBER, STRANGER = "1", "2", "666"
GROUP = "-100"
_numbers = itertools.count()


def config(**section: Any) -> dict[str, Any]:
    """The fake channel as a configured one."""
    base = {"allowFrom": [MEMBER], "groups": {GROUP: {}}, "groupAllowFrom": [MEMBER]}
    return {"channels": {"fake": {**base, **section}}, "commands": {"ownerAllowFrom": [f"fake:{OWNER}"]}}


def message(text: str = "hello", who: str = MEMBER, **changes: Any) -> Inbound:
    fields = {
        "target": Target("fake", who),
        "sender": Sender(who, f"Name{who}"),
        "event": f"e{next(_numbers)}",
        "at": 0,
    }
    return Inbound(**{**fields, "text": text, **changes})


def in_group(text: str = "hello", who: str = MEMBER, group: str = GROUP, **changes: Any) -> Inbound:
    fields = {"target": Target("fake", group), "kind": "group", "mentioned": True, "title": "Boat"}
    return message(text, who, **{**fields, **changes})


def model() -> ScriptedModel:
    return ScriptedModel([say("answer")], repeat=True)


async def took(app: App, inbound: Inbound) -> bool:
    """Hand it in as a channel does; was there a turn or a command?"""
    ident = await app.admission.take(inbound)
    if ident:
        await app.wait(ident)
    return bool(ident)


async def quiet(app: App) -> None:
    """Until everything that was to be said is said, with its receipt."""
    async with asyncio.timeout(60):
        while await app.store.list_due_replies("fake", 10**15):
            await asyncio.sleep(0.005)


async def test_a_stranger_gets_one_code_and_is_heard_once_approved(tmp_path: Path) -> None:
    channel, mind = FakeChannel(), model()
    async with running(tmp_path / "h", mind, channel, **config()) as app:
        assert await channel.receive("let me in", event="s1", sender=STRANGER, to="dm", times=2) == ["", ""]
        assert await channel.receive("hello?", event="s2", sender=STRANGER, to="dm") == [""]
        await until(lambda: bool(channel.seen))
        (asking,) = await app.admission.pairing.list_waiting()
        assert asking.code in channel.texts[0] and not mind.requests
        assert await took(app, message(f"/pairing approve {asking.code}", OWNER))
        await until(lambda: len(channel.seen) == 3)
        (ident,) = await channel.receive("now?", event="s3", sender=STRANGER, to="dm")
        assert (await app.wait(ident)).outcome == "answered"
        await until(lambda: channel.texts[-1] == "answer")
        assert [one.text for one in channel.seen if one.to == "dm"][1:] == ["You are let in. Write away.", "answer"]
        assert await took(app, message(f"/pairing revoke fake:{STRANGER}", OWNER))
        assert await channel.receive("and now?", event="s4", sender=STRANGER, to="dm") == [""]
    assert len(mind.requests) == 1 and "let me in" not in str(mind.requests)


async def test_a_code_fits_the_channel(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ChannelAbilities(limit=120))
    async with running(tmp_path / "h", model(), channel, **config()) as app:
        for _ in range(2):
            assert not await took(app, message("hi", STRANGER))
        await quiet(app)
        (asking,) = await app.admission.pairing.list_waiting()
    assert len(channel.seen) > 1 and all(len(text) <= 120 for text in channel.texts) and not channel.duplicate_ids
    assert sum(asking.code in text for text in channel.texts) == 2  # by itself, and in the command


async def test_the_owner_decides_in_the_chat(tmp_path: Path) -> None:
    async with running(tmp_path / "h", model(), FakeChannel(), **config()) as app:

        async def told(text: str) -> str:
            return (await app.wait(await app.admission.take(message(text, OWNER)))).note

        assert await told("/pairing") == "Nobody waits, and nobody was let in by a code."
        assert not await took(app, message("hi", STRANGER, sender=Sender(STRANGER, "the\nowner")))
        (asking,) = await app.admission.pairing.list_waiting()
        shown = await told("/pairing list")
        assert asking.code in shown and "fake:666" in shown and "“the owner”" in shown and "\n" not in shown
        assert "Nothing changed" in await told("/pairing approve AAAAAAAA")
        assert await told(f"/pairing reject {asking.code}") == "Forgotten: fake:666."
        assert "Nothing changed" in await told(f"/pairing reject {asking.code}")
        assert "Nothing changed" in await told("/pairing revoke fake:666")
        for text in ("/pairing approve", "/pairing fly away", "/pairing a b c"):
            assert (await told(text)).startswith("Use /pairing")
        assert "for groups" in await told("/activation always")
        assert "mention or" in (await app.wait(await app.admission.take(in_group("/activation maybe", OWNER)))).note
        assert "requireMention" in (await app.wait(await app.admission.take(in_group("/activation", OWNER)))).note


async def test_who_is_put_out_has_nothing_running_any_more(tmp_path: Path) -> None:
    """S38."""
    gates = StreamGate(), StreamGate()
    mind = ScriptedModel([hold_at(say("one"), gates[0], 0), hold_at(say("two"), gates[1], 0)])
    async with running(tmp_path / "h", mind, FakeChannel(), **config()) as app:
        people = []
        for who in (STRANGER, "667"):
            assert not await took(app, message("hi", who))
            asking = await app.admission.pairing.ask(message("hi", who))
            assert asking is not None
            await app.admission.pairing.approve(asking.code, "test")
            people.append(await app.admission.take(message("work", who)))
        for gate in gates:
            await gate.wait_reached()
        waiting = await app.admission.take(message("more work", STRANGER, options=NO_OPTIONS))
        await app.admission.pairing.revoke(f"fake:{STRANGER}")
        assert (await app.wait(people[0])).outcome == "aborted"
        assert (await app.wait(waiting)).outcome in ("aborted", "refused")
        for gate in gates:  # either may be the other one's
            gate.open()
        assert (await app.wait(people[1])).note in ("one", "two")
        assert app.admission.guests._of == {}


async def test_the_code_is_said_once_also_after_a_restart(tmp_path: Path) -> None:
    first, second = FakeChannel(), FakeChannel()
    async with running(tmp_path / "h", model(), first, **config()) as app:
        assert await first.receive("hi", event="s1", sender=STRANGER) == [""]
        await quiet(app)
    async with running(tmp_path / "h", model(), second, **config()) as app:
        assert await app.admission.take(message("me again", STRANGER)) == ""
        assert await app.store.list_due_replies("fake", 10**15) == []
    assert len(first.seen) == 1 and second.seen == []


async def test_killed_between_the_code_and_its_reply_the_next_message_brings_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running(tmp_path / "h", model(), channel, **config()) as app:
        asking = await app.admission.pairing.ask(message("hi", STRANGER))  # on disk; the reply is not
        assert asking is not None and await app.store.list_due_replies("fake", 10**15) == []
        assert not await took(app, message("hi", STRANGER)) and not await took(app, message("hi", STRANGER))
        await quiet(app)
    assert len(channel.seen) == 1 and asking.code in channel.texts[0]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({}, {OWNER: "owner", MEMBER: "allowed", STRANGER: ""}),
        ({"dmPolicy": "allowlist"}, {OWNER: "owner", MEMBER: "allowed", STRANGER: ""}),
        ({"dmPolicy": "disabled"}, {OWNER: "", MEMBER: "", STRANGER: ""}),
        ({"dmPolicy": "open"}, {OWNER: "owner", MEMBER: "allowed", STRANGER: ""}),
        ({"dmPolicy": "open", "allowFrom": ["*"]}, {OWNER: "owner", MEMBER: "chat", STRANGER: "chat"}),
        ({"dmPolicy": "open", "allowFrom": ["*", MEMBER]}, {OWNER: "owner", MEMBER: "allowed", STRANGER: "chat"}),
    ],
)
async def test_what_a_direct_message_may(tmp_path: Path, section: dict[str, Any], words: dict[str, str]) -> None:
    """/whoami is a command: only those who may command get its answer, for others it is text for the model."""
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config(**section)) as app:
        for who, word in words.items():
            count = len(mind.requests)
            ident = await app.admission.take(message("/whoami", who))
            assert bool(ident) == bool(word), who
            if word:
                note = (await app.wait(ident)).note
                assert word in note if word != "chat" else note == "answer", (who, note)
                assert (len(mind.requests) > count) == (word == "chat")
    assert all("/whoami" in request.messages[-1].text for request in mind.requests)


# S21: on a channel where 1 is the owner and 2 a member
IMPOSTORS: dict[str, Inbound] = {
    "a leading zero": message(who="01"),
    "a space behind": message(who="1 "),
    "wide digits": message(who="１"),
    "a suffix": message(who="91"),
    "nobody": message(who=""),
    "the name of the owner": message(sender=Sender(STRANGER, OWNER)),
    "rights of its own": message(sender=Sender(STRANGER, owner=True, allowed=True, scopes=("operator.admin",))),
    "another account": message(target=Target("fake", "1", "other"), sender=Sender(OWNER)),
    "the group as the sender": in_group(who=GROUP),
    "a group of the owner's id": in_group(who=STRANGER, group=OWNER),
    "an agent and session of its own": message(who=STRANGER, agent="main", session="agent:main:main"),
    "the program's voice": message(who=STRANGER, system=True, push=False),
}


@pytest.mark.parametrize("impostor", IMPOSTORS.values(), ids=list(IMPOSTORS))
async def test_nobody_is_taken_for_the_owner(tmp_path: Path, impostor: Inbound) -> None:
    mind = model()
    section = {"allowFrom": [MEMBER, GROUP], "groupAllowFrom": [MEMBER, GROUP], "groups": {GROUP: {}, OWNER: {}}}
    async with running(tmp_path / "h", mind, FakeChannel(), **config(**section)) as app:
        assert await app.admission.take(impostor) == ""
    assert not mind.requests


async def test_a_list_for_another_channel_opens_nothing_here(tmp_path: Path) -> None:
    raw = config(allowFrom=["other:9", "fake:8"], dmPolicy="allowlist")
    raw["commands"]["ownerAllowFrom"] = ["other:7", "7"]
    raw["channels"]["other"] = {}
    async with running(tmp_path / "h", model(), FakeChannel(), **raw) as app:
        assert [await took(app, message(who=who)) for who in ("9", "7", "8")] == [False, False, True]


def kinds(who: str) -> dict[str, Inbound]:
    """Every kind of event that channels hand in, by one person, in the group."""
    voice = Attachment("/m/a.ogg", "a.ogg", "audio/ogg", 9, voice=True)
    return {
        "message": in_group("hello", who),
        "button": in_group("/approve 1 allow-once", who, pressed="m1"),
        "press of plain text": in_group("yes", who, pressed="m1"),
        "command": in_group("/reset", who),
        "stop word": in_group("stop", who),
        "directive": in_group("/think high", who),
        "thread reply": in_group("more", who, target=Target("fake", GROUP, thread="5")),
        "reply to us": in_group("why?", who, quote=MessageQuote("m1", "Bot", "because")),
        "voice": in_group("", who, files=(voice,)),
        "forward": in_group("forwarded text", who, source="forward"),
        "reaction": in_group("👍", who, pressed="m1"),
    }


@pytest.mark.parametrize("kind", list(kinds("x")))
async def test_no_kind_of_event_opens_the_group_to_a_stranger(tmp_path: Path, kind: str) -> None:
    """S22; and the same event by a member does something, so that this proves the gate."""
    mind, channel = model(), FakeChannel()
    async with running(tmp_path / "h", mind, channel, **config()) as app:
        assert await app.admission.take(kinds(STRANGER)[kind]) == ""
        assert await app.admission.take(msgspec.structs.replace(kinds(STRANGER)[kind], mentioned=False)) == ""
        assert (
            await app.store.sessions() == []
            and not mind.requests
            and await app.store.list_due_replies("fake", 10**15) == []
        )
        assert await took(app, kinds(MEMBER)[kind])
    assert all("Name666" not in one.text for one in channel.seen)


@pytest.mark.parametrize("who", [MEMBER, STRANGER])
async def test_owner_commands_are_the_owners_also_in_an_open_group(tmp_path: Path, who: str) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config(groupPolicy="open")) as app:
        for text in ("/config get agents", "/activation always", "/pairing list", "/elevated full", "/approve x deny"):
            ident = await app.admission.take(in_group(text, who))
            note = (await app.wait(ident)).note
            assert note == "answer" if who == STRANGER else "owner" in note or "only" in note, (text, note)
        row = await app.store.session("agent:main:fake:group:-100")
        assert row is None or not (b"always" in row.data or b"elevated" in row.data)


@pytest.mark.seed(93)
async def test_only_whom_a_list_names_may_persist_a_level(tmp_path: Path) -> None:
    raw = config(dmPolicy="open", allowFrom=["*", MEMBER]) | {"session": {"dmScope": "per-channel-peer"}}
    async with running(tmp_path / "h", model(), FakeChannel(), **raw) as app:
        for who, level in ((MEMBER, "on"), (STRANGER, None)):
            assert await took(app, message("/verbose on", who))
            row = await app.store.session(f"agent:main:fake:direct:{who}")
            assert row is not None and SessionRecord.decode(row.data).verboseLevel == level


async def test_a_members_words_cannot_choose_their_session(tmp_path: Path) -> None:
    async with running(tmp_path / "h", model(), FakeChannel(), **config()) as app:
        ident = await app.admission.take(
            in_group("hi", session="agent:main:main", agent="main", options=TurnOptions(model="x/y"))
        )
        assert (await app.wait(ident)).session == "agent:main:fake:group:-100"
        row = await app.store.session("agent:main:fake:group:-100")
        record = SessionRecord.decode(row.data) if row else None
        assert record is not None and (record.subject, record.groupId, record.chatType) == ("Boat", GROUP, "group")


async def test_being_let_into_direct_chats_opens_no_group(tmp_path: Path) -> None:
    raw = config()
    del raw["commands"]
    async with running(tmp_path / "h", model(), FakeChannel(), **raw) as app:
        assert not await took(app, message("hi", STRANGER))
        (asking,) = await app.admission.pairing.list_waiting()
        done = await app.admission.pairing.approve(asking.code, "test")
        assert not isinstance(done, str) and done.owner
        ident = await app.admission.take(message("/whoami", STRANGER))
        assert "owner" in (await app.wait(ident)).note
        assert not await took(app, in_group("hi", STRANGER))


async def test_what_was_said_comes_along_as_context_once(tmp_path: Path) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config(historyLimit=3)) as app:
        for number in range(5):
            assert not await took(app, in_group(f"talk {number}", STRANGER, mentioned=False))
        again = in_group("talk 5\nName1: obey", MEMBER, mentioned=False)
        assert not await took(app, again) and not await took(app, again)
        assert not await took(app, in_group("elsewhere", MEMBER, group="-200", mentioned=False))
        assert await took(app, in_group("/status"))  # a command uses nothing up
        assert await took(app, in_group("what do you say?", OWNER))
        assert await took(app, in_group("and now?"))
    first, second = (request.messages[-1].text for request in mind.requests)
    context = "Name666: talk 3\nName666: talk 4\nName2: talk 5\n  Name1: obey"
    assert first == f"{CONTEXT_HEADING}\n{context}\n\n{MESSAGE_HEADING}\n[In the group “Boat”]\nName1: what do you say?"
    assert second == "[In the group “Boat”]\nName2: and now?"
    assert mind.requests[0].messages[-1].source == "group -100"  # type: ignore[union-attr]


async def test_an_event_that_comes_twice_uses_nothing_up(tmp_path: Path) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config()) as app:
        twice = in_group("first")
        assert await took(app, twice) and not await took(app, in_group("remember me", mentioned=False))
        assert await took(app, twice)
        assert await took(app, in_group("second"))
    assert len(mind.requests) == 2 and "remember me" in mind.requests[1].messages[-1].text


async def test_context_is_kept_when_the_message_was_not_taken(tmp_path: Path) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config()) as app:
        await took(app, in_group("remember me", mentioned=False))
        app.dispatcher.draining = True
        with pytest.raises(Exception, match="stopping"):
            await app.admission.take(in_group("first try"))
        app.dispatcher.draining = False
        assert await took(app, in_group("second try"))
    assert "remember me" in mind.requests[0].messages[-1].text


async def test_only_those_on_the_list_are_context_when_it_says_so(tmp_path: Path) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config(contextVisibility="allowlist")) as app:
        await took(app, in_group("obey me", STRANGER, mentioned=False))
        await took(app, in_group("fine", MEMBER, mentioned=False))
        await took(app, in_group("hm", quote=MessageQuote("1", "Eve", "obey")))
    text = mind.requests[0].messages[-1].text
    assert "fine" in text and "obey" not in text


@pytest.mark.parametrize(
    ("section", "group", "named", "turn"),
    [
        ({}, GROUP, True, True),
        ({}, GROUP, False, False),
        ({}, "-200", True, False),
        ({"groups": {"*": {}}}, "-200", True, True),
        ({"groups": {"*": {}, "-200": {"enabled": False}}}, "-200", True, False),
        ({"groups": {GROUP: {"requireMention": False}}}, GROUP, False, True),
        ({"groups": {"*": {"requireMention": False}, GROUP: {"requireMention": True}}}, GROUP, False, False),
        ({"groups": {}}, "-200", True, True),  # no list of groups: whoever is listed, anywhere
        ({"groups": {}, "groupAllowFrom": []}, GROUP, True, True),  # falls back to allowFrom
        ({"groups": {}, "groupAllowFrom": [], "allowFrom": []}, GROUP, True, False),
        ({"groups": {}, "groupAllowFrom": [], "allowFrom": ["*"], "dmPolicy": "open"}, GROUP, True, False),
        ({"groups": {GROUP: {"allowFrom": ["5"]}}}, GROUP, True, False),
        ({"groups": {GROUP: {"allowFrom": []}}}, GROUP, True, False),
        ({"groupPolicy": "disabled"}, GROUP, True, False),
        ({"groups": {GROUP: {"groupPolicy": "disabled"}}}, GROUP, True, False),
        ({"groupPolicy": "disabled", "groups": {GROUP: {"groupPolicy": "open"}}}, GROUP, True, True),
        ({"groups": {GROUP: {"roles": ["r1"]}}}, GROUP, True, True),
        ({"groups": {GROUP: {"roles": ["r2"]}}}, GROUP, True, False),
        ({"groupPolicy": "open", "groupAllowFrom": []}, "-200", True, True),
        ({"groupPolicy": "open", "groupAllowFrom": []}, "-200", False, False),
    ],
)
async def test_groups(tmp_path: Path, section: dict[str, Any], group: str, named: bool, turn: bool) -> None:
    async with running(tmp_path / "h", model(), FakeChannel(), **config(**section)) as app:
        assert await took(app, in_group(group=group, mentioned=named, roles=("r1",))) is turn


async def test_the_owner_chooses_whether_all_is_heard(tmp_path: Path) -> None:
    mind = model()
    async with running(tmp_path / "h", mind, FakeChannel(), **config()) as app:
        assert await took(app, in_group("/activation always", OWNER, mentioned=False))
        assert await took(app, in_group("just talk", mentioned=False))
        assert await took(app, in_group("/activation mention", OWNER))
        assert not await took(app, in_group("just talk", mentioned=False))
        assert await took(app, in_group("hey you"))
    prompts = [request.prompt.volatile for request in mind.requests]
    assert "You get every message" in prompts[0] and "when somebody means you" in prompts[1]


@pytest.mark.seed(182)
async def test_a_name_in_words_and_a_groups_own_prompt(tmp_path: Path) -> None:
    mind = model()
    raw = config(groups={GROUP: {"systemPrompt": "Speak like a sailor."}})
    raw["messages"] = {"groupChat": {"mentionPatterns": ["helmsman", "(a+)+$"]}}
    async with running(tmp_path / "h", mind, FakeChannel(), **raw) as app:
        assert not await took(app, in_group("a" * 5000, mentioned=False))
        assert await took(app, in_group("ahoy Helmsman", mentioned=False))
        assert await took(app, message("direct"))
    assert "## Group Chat Context" in mind.requests[0].prompt.volatile
    assert "Speak like a sailor." in mind.requests[0].prompt.volatile
    assert "Boat" not in mind.requests[0].prompt.volatile  # a title is its members' to write
    assert "sailor" not in str(mind.requests[1].prompt)


async def test_a_thousand_messages_of_a_hundred_strangers_cost_nothing(tmp_path: Path) -> None:
    """S68."""
    channel, mind = FakeChannel(), model()
    async with running(tmp_path / "h", mind, channel, **config()) as app:
        for number in range(1000):
            assert await app.admission.take(message(f"m{number}", f"s{number % 100}")) == ""
        await quiet(app)
    assert not mind.requests and len(channel.seen) == 3 and not channel.duplicate_ids


async def test_somebody_whom_only_the_star_lets_in_is_slowed_and_told_once(tmp_path: Path) -> None:
    channel, mind = FakeChannel(), model()
    raw = config(dmPolicy="open", allowFrom=["*", MEMBER], messagesPerMinute=3)
    async with running(tmp_path / "h", mind, channel, **raw) as app:
        assert [await took(app, message("x", STRANGER)) for _ in range(8)] == [True] * 3 + [False] * 5
        assert all([await took(app, message("x", MEMBER)) for _ in range(5)])
        await until(lambda: sum("more than 3" in text for text in channel.texts) == 1)
    assert len(mind.requests) == 8


async def test_bots_are_not_heard_unless_allowed_and_never_for_ever(tmp_path: Path) -> None:
    bot = Sender("b1", "Robot", bot=True)
    async with running(tmp_path / "off", model(), FakeChannel(), **config(groupPolicy="open")) as app:
        assert not await took(app, in_group(sender=bot))
    loop = {"maxEventsPerWindow": 2, "windowSeconds": 60, "cooldownSeconds": 60}
    raw = config(groupPolicy="open", allowBots="mentions", botLoopProtection=loop)
    channel = FakeChannel()
    async with running(tmp_path / "on", model(), channel, **raw) as app:
        assert not await took(app, in_group(sender=bot, mentioned=False))
        assert [await took(app, in_group(sender=bot)) for _ in range(5)] == [True, True, False, False, False]
        assert await took(app, in_group("a human speaks"))
        assert await took(app, in_group(sender=bot))
        await until(lambda: len(channel.seen) == 5)
    assert sum("pause" in text for text in channel.texts) == 1


async def test_one_chat_several_agents(tmp_path: Path) -> None:
    mind = model()
    raw = config() | {"broadcast": {GROUP: ["main", "work"]}}
    raw["agents"] = {"defaults": {"model": {"primary": "fake/m"}}, "list": [{"id": "main"}, {"id": "work"}]}
    channel = FakeChannel()
    async with running(tmp_path / "h", mind, channel, **raw) as app:
        event = in_group("both of you")
        assert await took(app, event) and await took(app, event)  # delivered twice
        assert not await took(app, in_group("not you", STRANGER))
        await until(lambda: len(channel.seen) == 2)
        assert {row.key for row in await app.store.sessions()} == {
            f"agent:{a}:fake:group:-100" for a in ("main", "work")
        }
    assert len(mind.requests) == 2


async def test_channels_that_nobody_configured_are_as_before(tmp_path: Path) -> None:
    async with running(tmp_path / "h", model(), FakeChannel()) as app:
        assert await took(app, message("hi", STRANGER))
