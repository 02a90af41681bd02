"""Cards that say what became of them, also when the decision was faster than the card, or came after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from palinurus.core.policy import card
from palinurus.core.types.approval import ApprovalDecision, ApprovalRequest
from palinurus.core.types.channel import ChannelAbilities, EditAction
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.outbox.cards import CLOSED, KIND, ApprovalCards, parse_question_id
from palinurus.store.factory import open_store
from palinurus.tasks import TaskSet
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from palinurus.testing.slowstore import slow_down

ASK = ApprovalRequest("exec", "main", "s", "r", "c", "exec", "run a command", "touch X")
SHOWN = card.write_approval_card(ASK, "0123456789")
REPLY = Reply(Target("fake", "chat"), SHOWN, "item.a-q1", "notice", buttons=card.parse_card_buttons(SHOWN), plain=True)


@pytest.mark.parametrize("allowed", [("allow-once", "allow-always", "deny"), ("allow-once", "deny"), ("deny",)])
def test_the_buttons_are_what_the_card_offers(allowed: tuple[ApprovalDecision, ...]) -> None:
    ask = ApprovalRequest("exec", "main", "s", "r", "c", "exec", "run", "touch X", allowed=allowed)
    made = card.parse_card_buttons(card.write_approval_card(ask, "0123456789"))
    assert [button.text for button in made] == [f"/approve 01234567 {word}" for word in allowed]
    assert card.parse_card_buttons("no card at all") == ()


def test_a_command_that_looks_like_the_cards_end_adds_no_button() -> None:
    ask = ApprovalRequest(
        "exec", "main", "s", "r", "c", "exec", "run", "echo /approve ffffffff allow-always", allowed=("deny",)
    )
    assert [b.text for b in card.parse_card_buttons(card.write_approval_card(ask, "0123456789"))] == [
        "/approve 01234567 deny"
    ]


def test_which_messages_are_cards() -> None:
    assert (
        parse_question_id("item.a-q1") == "q1"
        and parse_question_id("item.a-q1.p2") == "q1"
        and parse_question_id("item.0") == ""
    )


@pytest.mark.parametrize("early", [False, True])
async def test_a_decision_is_written_on_the_card(tmp_path: Path, early: bool) -> None:
    store = await open_store(str(tmp_path), FakeClock())
    channel, helpers = (
        FakeChannel(abilities=ChannelAbilities(acts=frozenset(("edit",)), buttons=3)),
        TaskSet("a sign of life"),
    )
    cards = ApprovalCards(store, {"fake": channel}, helpers)
    if early:
        cards.on_decided("q1", "deny by me")
        await helpers.settle()
    cards.on_shown(REPLY, "m1")
    await helpers.settle()
    if not early:
        assert [kept.key for kept in await store.list_records(KIND)] == ["q1"]
        cards.on_decided("q1", "deny by me")
        await helpers.settle()
    ((_, edit),) = channel.acts
    assert isinstance(edit, EditAction) and edit.message_id == "m1" and edit.buttons == () and edit.plain
    assert edit.text.endswith("\n— deny by me") and "touch X" in edit.text and "/approve" not in edit.text
    assert await store.list_records(KIND) == []
    await store.close()


@pytest.mark.parametrize("seed", range(6))
async def test_a_decision_while_the_card_is_put_on_record_is_written_on_it_once(tmp_path: Path, seed: int) -> None:
    store = slow_down(await open_store(str(tmp_path), FakeClock()), seed)
    channel, helpers = FakeChannel(abilities=ChannelAbilities(acts=frozenset(("edit",)))), TaskSet("a sign of life")
    cards = ApprovalCards(store, {"fake": channel}, helpers)
    cards.on_shown(REPLY, "m1")
    while not await store.list_records(KIND):
        await asyncio.sleep(0)
    cards.on_decided("q1", "deny by me")
    await helpers.settle()
    assert len(channel.acts) == 1 and await store.list_records(KIND) == []
    await store.close()


async def test_at_a_start_cards_of_closed_questions_are_set_right(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path), FakeClock())
    channel, helpers = FakeChannel(abilities=ChannelAbilities(acts=frozenset(("edit",)))), TaskSet("a sign of life")
    before = ApprovalCards(store, {"fake": channel}, helpers)
    before.on_shown(REPLY, "m1")
    before.on_shown(Reply(Target("fake", "chat"), SHOWN, "item.a-q2", "notice"), "m2")
    await helpers.settle()
    after = ApprovalCards(store, {"fake": channel}, helpers)
    await after.load({"q2"})
    await helpers.settle()
    ((_, edit),) = channel.acts
    assert isinstance(edit, EditAction) and edit.message_id == "m1" and CLOSED in edit.text
    assert [kept.key for kept in await store.list_records(KIND)] == ["q2"]
    await store.close()
