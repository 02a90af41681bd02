"""Replies as messages a channel takes: nothing too long, nothing lost, ids that stay."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.format.render import measure_markdown
from palinurus.core.types.channel import ChannelAbilities, Markup
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.core.types.usage import TokenUsage
from palinurus.outbox.parts import ChannelFit, FittingSpeaker, ReplyMode, cut_text, split_reply

WORDS = st.sampled_from(
    ["word", "a longer word", ". ", "\n", "\n\n", "\n```py\n", "\n```\n", "**b**", "`c`", "😀", "<&>", "- x\n"]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join) | st.text(max_size=200)
ABLE = st.builds(
    ChannelAbilities,
    st.sampled_from(["plain", "telegram", "slack", "discord", "whatsapp", "signal", "matrix", "irc"]),
    st.integers(80, 300),
    st.sampled_from(["characters", "utf16", "bytes"]),
)


def reply(text: str, **changes: object) -> Reply:
    return msgspec.structs.replace(Reply(Target("fake", "chat"), text, "id"), **changes)


def letters(text: str) -> str:
    """What was said, without blanks and the lines of fences, which may be closed and opened again."""
    return re.sub(r"[\s`]|(?:```)?py", "", text)


@given(TEXTS, ABLE, st.booleans())
def test_every_part_fits_and_nothing_is_lost(text: str, abilities: ChannelAbilities, newline: bool) -> None:
    made = split_reply(reply(text), ChannelFit(abilities, newline=newline))
    assert bool(made) == bool(text.strip())
    for part in made:
        assert measure_markdown(part.text, abilities) <= abilities.limit or len(part.text) == 1
    assert letters("".join(part.text for part in made)) == letters(text)
    assert [part.client_id for part in made] == [f"id.p{n}" if n > 1 else "id" for n in range(1, len(made) + 1)]
    assert made == split_reply(reply(text), ChannelFit(abilities, newline=newline))


@given(st.text(min_size=1, max_size=300))
def test_plain_text_is_measured_as_it_is(text: str) -> None:
    abilities = ChannelAbilities("matrix", 40)
    assert all(len(part.text) <= 40 for part in split_reply(reply(text, plain=True), ChannelFit(abilities)))


def test_cuts_are_where_a_reader_would_pause() -> None:
    text = "One sentence here. Another one there.\n\nA new paragraph begins. It ends."
    assert cut_text(text, ChannelFit(ChannelAbilities(limit=45))) == text.split("\n\n")
    assert cut_text("word " * 10, ChannelFit(ChannelAbilities(limit=22))) == [
        "word word word word",
        "word word word word",
        "word word",
    ]


def test_a_fence_that_is_cut_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {n}" for n in range(10))
    made = cut_text(f"```py\n{code}\n```", ChannelFit(ChannelAbilities(limit=60)))
    assert len(made) > 1
    assert all(piece.startswith("```py\n") and piece.endswith("```") and piece.count("```") == 2 for piece in made)


def test_the_accounts_own_limit_counts_but_not_beyond_the_channels() -> None:
    assert ChannelFit(ChannelAbilities(limit=100), 40).most == 40
    assert ChannelFit(ChannelAbilities(limit=100), 400).most == 100
    assert ChannelFit(ChannelAbilities(limit=100)).most == 100


def test_paragraphs_go_one_by_one_where_that_is_asked_for() -> None:
    fit = ChannelFit(ChannelAbilities(), newline=True)
    assert cut_text("One.\n\nTwo.\nStill two.\n\n```\na\n\nb\n```", fit) == [
        "One.",
        "Two.\nStill two.",
        "```\na\n\nb\n```",
    ]


def test_files_and_buttons_come_last() -> None:
    buttons = (Button("Yes", "yes"), Button("No", "no"))
    made = split_reply(
        reply("word " * 30, media=("a.png",), buttons=buttons, voice=True),
        ChannelFit(ChannelAbilities(limit=60, buttons=2)),
    )
    assert [(p.media, p.buttons, p.voice) for p in made[:-1]] == [((), (), False)] * (len(made) - 1)
    assert (made[-1].media, made[-1].buttons, made[-1].voice) == (("a.png",), buttons, True)
    (bare,) = split_reply(reply("hi", buttons=buttons), ChannelFit(ChannelAbilities(buttons=1)))
    assert bare.buttons == ()  # not some of them
    (only,) = split_reply(reply("", media=("a.png",)), ChannelFit(ChannelAbilities()))
    assert only.media == ("a.png",)


class Says:
    """A speaker of two replies."""

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        return (reply("tool line", kind="tool"), reply("first"))

    def close(self) -> tuple[Reply, ...]:
        return (reply("word " * 10), reply("explicit", reply_to="m9"))


@pytest.mark.parametrize(
    ("mode", "answered"),
    [
        ("off", ["", "", "", "", "m9"]),
        ("first", ["", "m1", "", "", "m9"]),
        ("all", ["", "m1", "m1", "m1", "m9"]),
    ],
)
def test_who_is_answered(mode: ReplyMode, answered: list[str]) -> None:
    speaker = FittingSpeaker(Says(), ChannelFit(ChannelAbilities(limit=30, replies=True), answers=mode), "m1")
    said = (*speaker.feed(AgentEnd((), "stop", TokenUsage())), *speaker.close())
    assert [one.reply_to for one in said] == answered


def test_nobody_is_answered_where_the_channel_cannot() -> None:
    speaker = FittingSpeaker(Says(), ChannelFit(ChannelAbilities(limit=30), answers="all"), "m1")
    assert [one.reply_to for one in speaker.feed(AgentEnd((), "stop", TokenUsage()))] == ["", ""]


@pytest.mark.parametrize("markup", ["telegram", "slack", "matrix"])
def test_a_hostile_text_is_cut_in_time(markup: Markup) -> None:
    made = cut_text("<&>" * 3000, ChannelFit(ChannelAbilities(markup, 400)))
    assert "".join(made) == "<&>" * 3000
