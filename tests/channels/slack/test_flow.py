"""Whole messages through the App: what people on Slack say, and what they see."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from channels.scene import asked, hurried, running, texts, until
from palinurus.core.types.channel import ChannelHttpResponse
from palinurus.gateway.server import GatewayServer as Server
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.testing.slack.server import APP, BOT, SIGNING, FakeSlack
from palinurus.testing.slack.state import TEAM

ALICE = "UALICE"


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack() as made:
        yield made


async def test_a_conversation(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **Alice** & <!channel>"), say("Still here.")])
    async with running(tmp_path / "h", model, slack, ALICE) as app:
        await slack.say("hello <you> & me")
        await until(lambda: texts(slack))
        await slack.say("and now?")
        await until(lambda: len(texts(slack)) == 2)
        assert app.channels["slack"].status().me == "pal"
    assert texts(slack) == ["Hello, Alice & <!channel>", "Still here."]
    sent = slack.chats["DALICE"][1]["text"]
    assert "*Alice*" in sent and "<!channel>" not in sent  # nobody is called by what a model writes
    assert asked(model, 0) == "hello <you> & me"
    assert len(slack.acknowledged) == 2


async def test_a_channel_is_answered_when_we_are_meant(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("to the mention")])
    async with running(tmp_path / "h", model, slack, ALICE):
        await slack.say("nice weather", chat="group", sender="UBOB")
        told = slack.add_message("what do you think?", chat="group", sender="UBOB", mention=True)
        for kind in ("message", "app_mention"):  # Slack tells it twice to apps that hear both
            event = {**told, "type": kind}
            await slack.tell("events_api", {"type": "event_callback", "team_id": TEAM, "event": event})
        await until(lambda: texts(slack, "group") and len(slack.acknowledged) == 3)
    assert texts(slack, "group") == ["to the mention"] and len(model.requests) == 1
    assert "what do you think?" in asked(model) and "UPAL" not in asked(model)
    assert "bob: nice weather" in asked(model) and "harbour" in asked(model)


async def test_a_thread_is_a_conversation_of_its_own(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("below"), say("above"), say("below again")])
    async with running(tmp_path / "h", model, slack, ALICE):
        root = await slack.say("a root", chat="group")
        await slack.say("in the thread", chat="group", mention=True, thread_ts=root)
        await until(lambda: len(texts(slack, "group")) == 1)
        await slack.say("outside", chat="group", mention=True)
        await until(lambda: len(texts(slack, "group")) == 2)
    async with running(tmp_path / "h", model, slack, ALICE):
        await slack.say("overheard", chat="group")
        await slack.say("in a thread of others", chat="group", thread_ts="1.000001")
        await slack.say("answering you", chat="group", thread_ts=root)  # where we have spoken no mention is needed
        await until(lambda: len(texts(slack, "group")) == 3)
    shown = slack.visible_messages("group")
    assert [(one.text, one.reply_to) for one in shown] == [("below", root), ("above", ""), ("below again", root)]
    assert len(model.requests[1].messages) == 1 and len(model.requests[2].messages) == 3


async def test_answers_go_below_the_question_if_that_is_wanted(slack: FakeSlack, tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("here")]), slack, ALICE, {"replyToMode": "all"}):
        ts = await slack.say("a question", chat="group", mention=True)
        await until(lambda: texts(slack, "group"))
    assert [one.reply_to for one in slack.visible_messages("group")] == [ts]


async def test_a_long_answer_comes_in_parts_in_order(slack: FakeSlack, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(2000)]
    async with running(tmp_path / "h", ScriptedModel([say(" ".join(words))]), slack, ALICE):
        await slack.say("tell me all")
        await until(lambda: " ".join(texts(slack)).split()[-1:] == ["word1999"])
    assert len(texts(slack)) > 3 and " ".join(texts(slack)).split() == words
    assert all(len(text) <= 4000 for text in texts(slack))


async def test_files_come_in_and_go_out(slack: FakeSlack, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    model = ScriptedModel([say(f"Here it is.\nMEDIA:{work}/chart.png")])
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(work)}}
    async with running(tmp_path / "h", model, slack, ALICE, agents=agents):
        await slack.say("draw this", files=[("notes.txt", "text/plain", b"one two three")])
        await until(lambda: slack.visible_messages())
    (shown,) = slack.visible_messages()
    assert (shown.text, shown.media) == ("Here it is.", ("chart.png",))
    assert next(f["data"] for f in slack.files.values() if f["name"] == "chart.png") == PNG
    kept = re.search(r"notes\.txt .* at (/\S+notes\.txt)", asked(model))
    assert kept is not None and Path(kept.group(1)).read_bytes() == b"one two three" and "draw this" in asked(model)


async def test_the_token_goes_to_slack_only(slack: FakeSlack, tmp_path: Path) -> None:
    async with FakeSlack() as other:
        model = ScriptedModel([say("sorry")])
        async with running(tmp_path / "h", model, slack, ALICE):
            made = slack.add_message("look", files=[("a.txt", "text/plain", b"x")])
            made["files"][0]["url_private_download"] = f"{other.url}/files/F1"
            await slack.tell("events_api", {"type": "event_callback", "event": made})
            await until(lambda: texts(slack))
    assert "a.txt is not on Slack itself and was not fetched" in asked(model) and other.calls == []


async def test_an_answer_grows_by_edits_and_is_one_message(slack: FakeSlack, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("It begins here. " * 10 + "And it ends."), gate, 4)])
    async with running(tmp_path / "h", model, slack, ALICE, {"streaming": "partial"}):
        await slack.say("go on")
        await gate.wait_reached()
        await until(lambda: texts(slack))
        assert len(texts(slack)) == 1 and not texts(slack)[0].endswith("And it ends.")
        gate.open()
        await until(lambda: texts(slack)[0].endswith("And it ends."))
        await asyncio.sleep(0.1)
    assert texts(slack) == [("It begins here. " * 10 + "And it ends.")]
    assert any(method == "chat.update" for method, _ in slack.calls)


@pytest.mark.parametrize("chat", ["", "group"])
async def test_an_approval_by_button_counts_only_from_who_may(slack: FakeSlack, tmp_path: Path, chat: str) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch made/X"})), say("done")])
    async with running(tmp_path / "h", model, slack, ALICE, tools={"exec": {"ask": "always"}}) as app:
        made = Path(app.settings.agents["main"].workspace) / "made" / "X"
        made.parent.mkdir()  # a command of a group's turn makes no files beside the owner's own
        await slack.say("make X", chat=chat, mention=bool(chat))
        await until(lambda: any(one.buttons for one in slack.visible_messages(chat)))
        card = next(one for one in slack.visible_messages(chat) if one.buttons)
        where = chat or "DALICE"
        await slack.press(card.message_id, "Allow once", chat=where, sender="UBOB")
        await until(lambda: len(slack.acknowledged) == 2)
        assert len(await app.approvals.pending()) == 1 and not made.exists()
        await slack.press(card.message_id, "Allow once", chat=where)
        await until(lambda: "done" in texts(slack, chat))
        assert made.exists() and await app.approvals.pending() == []


async def test_slash_commands(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("plain words")])
    async with running(tmp_path / "h", model, slack, ALICE):
        await slack.command("status", "")
        await until(lambda: len(texts(slack)) == 1)
        await slack.command("pal", "status")
        await until(lambda: len(texts(slack)) == 2)
        assert model.requests == []
        await slack.command("pal", "what is &lt;this&gt;?")
        await until(lambda: len(texts(slack)) == 3)
    assert "fake/m" in texts(slack)[0] and "fake/m" in texts(slack)[1]
    assert asked(model) == "what is <this>?"


async def test_what_is_told_again_is_one_turn_also_after_a_restart(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("once")])
    async with running(tmp_path / "h", model, slack, ALICE):
        ts = await slack.say("hello", times=3)
        await until(lambda: texts(slack) and len(slack.acknowledged) == 3)
    async with running(tmp_path / "h", model, slack, ALICE):
        await slack.say("hello", event=ts)
        await until(lambda: len(slack.acknowledged) == 4)
    assert texts(slack) == ["once"] and len(model.requests) == 1


async def test_a_disconnect_loses_nothing(slack: FakeSlack, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("written while the line was dead"), gate, 0), say("two"), say("three")])
    async with running(tmp_path / "h", model, slack, ALICE) as app:
        channel = app.channels["slack"]
        await slack.say("first")
        await gate.wait_reached()
        await slack.cut()
        await until(lambda: channel.status().state == "reconnecting")
        gate.open()
        await asyncio.sleep(0.05)
        assert texts(slack) == []
        await slack.mend()
        async with hurried(app):
            await until(lambda: len(texts(slack)) == 1)
        await slack.refresh()  # Slack moves us to another server
        await slack.say("second")
        await until(lambda: len(texts(slack)) == 2)
        assert channel.status().state == "ready"
    assert texts(slack) == ["written while the line was dead", "two"]


async def test_what_was_said_while_the_program_was_off_is_read_back(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    slack.now()
    async with running(tmp_path / "h", model, slack, ALICE):
        await slack.say("first")
        await until(lambda: texts(slack))
    for number in range(2):
        await slack.say(f"missed {number}")
    slack.forget()
    queue = {"queue": {"mode": "followup"}}
    async with running(tmp_path / "h", model, slack, ALICE, messages=queue):
        await until(lambda: len(texts(slack)) == 3)
    async with running(tmp_path / "h", model, slack, ALICE):
        await until(lambda: slack.calls[-1][0] == "conversations.history")
    assert texts(slack) == ["one", "two", "three"]
    assert [asked(model, n) for n in range(3)] == ["first", "missed 0", "missed 1"]


async def test_a_storm_of_limits_is_waited_out_and_nothing_doubles(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say(" ".join(f"w{n}" for n in range(3000)))])
    async with running(tmp_path / "h", model, slack, ALICE):
        slack.fail("limited", 8, retry_after=0)
        await slack.say("much, please")
        await until(lambda: " ".join(texts(slack)).split()[-1:] == ["w2999"])
    assert " ".join(texts(slack)).split() == [f"w{n}" for n in range(3000)]


async def test_a_lost_answer_is_looked_up_not_said_again(slack: FakeSlack, tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("only once"), say("next")]), slack, ALICE):
        slack.fail("cut")
        await slack.say("hello")
        await until(lambda: any(method == "conversations.history" for method, _ in slack.calls))
        await slack.say("more")
        await until(lambda: "next" in texts(slack))
    assert texts(slack) == ["only once", "next"]


async def test_a_token_that_is_taken_back_is_said(slack: FakeSlack, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path / "h", ScriptedModel([]), slack, ALICE) as app:
        slack.revoked = True
        await slack.cut()
        await slack.mend()
        await until(lambda: app.channels["slack"].status().state == "signed_out")
        assert "install the app again" in app.channels["slack"].status().detail
    assert BOT not in caplog.text and APP not in caplog.text and "ticket=secret" not in caplog.text


HTTP = {"mode": "http", "signingSecret": SIGNING}


async def hooked(
    app: Any, slack: FakeSlack, body: bytes, kind: str = "application/json", **how: Any
) -> ChannelHttpResponse:
    answer = await app.hook("slack", "default", slack.sign_request(body, kind, **how))
    assert isinstance(answer, ChannelHttpResponse)
    return answer


async def test_requests_instead_of_a_socket(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch X", "elevated": True})), say("by request")])
    form = "application/x-www-form-urlencoded"
    async with running(tmp_path / "h", model, slack, ALICE, HTTP) as app:
        greeting = json.dumps({"type": "url_verification", "challenge": "c-1"}).encode()
        assert (await hooked(app, slack, greeting)).body == b"c-1"
        event = json.dumps({"type": "event_callback", "event": slack.add_message("hello")}).encode()
        for how in ({"secret": "wrong"}, {"late": 301}, {"late": -301}):
            assert (await hooked(app, slack, event, **how)).status == 401
        for _ in range(2):  # Slack tells it again when we were slow
            assert (await hooked(app, slack, event)).status == 200
        await until(lambda: any(one.buttons for one in slack.visible_messages()))
        card = next(one for one in slack.visible_messages() if one.buttons)
        pressed = urlencode({"payload": json.dumps(slack.make_press(card.message_id, "Allow once"))}).encode()
        assert (await hooked(app, slack, pressed, form)).status == 200
        await until(lambda: "by request" in texts(slack))
        command = {"command": "/status", "user_id": ALICE, "channel_id": "DALICE", "trigger_id": "t1"}
        assert (await hooked(app, slack, urlencode(command).encode(), form)).status == 200
        await until(lambda: "fake/m" in texts(slack)[-1])
        for broken in (b"", b"[]", b"{", b'{"type": "event_callback", "event": 7}'):
            assert (await hooked(app, slack, broken)).status == 200
    assert len(model.requests) == 2


async def test_a_request_of_slack_reaches_us_through_the_gateway(slack: FakeSlack, tmp_path: Path) -> None:
    model = ScriptedModel([say("through the door")])
    async with running(tmp_path / "h", model, slack, ALICE, HTTP) as app, aiohttp.ClientSession() as http:
        server = Server(app, app.clock, "token")
        await server.start("127.0.0.1", 0)
        try:
            body = json.dumps({"type": "event_callback", "event": slack.add_message("hello")}).encode()
            url = f"http://127.0.0.1:{server.port}/channels/slack/default"
            for secret, status in (("wrong", 401), (SIGNING, 200)):
                headers = dict(slack.sign_request(body, secret=secret).headers)
                async with http.post(url, data=body, headers=headers) as answer:
                    assert answer.status == status
            await until(lambda: texts(slack))
        finally:
            await server.stop()
    assert texts(slack) == ["through the door"] and len(model.requests) == 1


async def test_two_workspaces_are_kept_apart(slack: FakeSlack, tmp_path: Path) -> None:
    async with FakeSlack() as other:
        model = ScriptedModel([lambda request: say(f"re: {request.messages[-1].text}")], repeat=True)
        accounts = {"home": slack.section, "work": other.section}
        async with running(tmp_path / "h", model, slack, ALICE, {"accounts": accounts}) as app:
            await slack.say("at home")
            await other.say("at work")
            await until(lambda: texts(slack) and texts(other))
            await other.cut()
            await until(lambda: app.channels["slack"].status().state == "reconnecting")
            await slack.say("still at home")
            await until(lambda: len(texts(slack)) == 2)
    assert (texts(slack), texts(other)) == (["re: at home", "re: still at home"], ["re: at work"])


@pytest.mark.parametrize(
    ("section", "shown"),
    [
        ({}, "false false"),
        ({"unfurlLinks": True}, "true true"),
        ({"unfurlLinks": True, "unfurlMedia": False}, "true false"),
    ],
)
async def test_previews_are_shown_as_configured(
    slack: FakeSlack, tmp_path: Path, section: dict[str, Any], shown: str
) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("see https://a.example")]), slack, ALICE, section):
        await slack.say("hello")
        await until(lambda: texts(slack))
    (form,) = [form for method, form in slack.calls if method == "chat.postMessage"]
    assert f"{form['unfurl_links']} {form['unfurl_media']}".lower() == shown
