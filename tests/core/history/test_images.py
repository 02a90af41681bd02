from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.images import FADED_IMAGE, Budget, fade_images, find_image_border, find_image_mentions
from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResult, UserMessage


def within(messages: Sequence[Message], budget: Budget) -> tuple[Message, ...]:
    return fade_images(messages, find_image_border(messages, budget))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at /a/b.png, please", ("/a/b.png",)),
        ("./a.png and ../b.JPEG and ~/c.webp", ("./a.png", "../b.JPEG", "~/c.webp")),
        ("./a.png,./b.png ./a.png", ("./a.png", "./b.png")),
        ("file:///a/b%20c.png", ("/a/b c.png",)),
        ("file://other/a.png https://x.example/a.png a.png ./a.pngx ./a.png/b", ()),
        ("[media attached: /a/my pic.jpg (image/jpeg) | https://x.example/y.png]", ("/a/my pic.jpg",)),
        ("[media attached 1/2: pic.gif]", ("pic.gif",)),
        ("[Image: source: sub/x.png]", ("sub/x.png",)),
        ("[Image: https://x.example/y.png]", ()),
        ('see "~/my dir/x.gif".', ("~/my dir/x.gif",)),
        ("it's /a/b.png, isn't it", ("/a/b.png",)),
    ],
)
def test_mentions(text: str, paths: tuple[str, ...]) -> None:
    assert find_image_mentions(text).paths == paths


def test_inline_images_leave_the_text() -> None:
    found = find_image_mentions("a data:image/PNG;base64,iVBORw0KGgoAAAANSUhEUg== b")
    assert found == ((), (ImageBlock("iVBORw0KGgoAAAANSUhEUg==", "image/png"),), "a [image] b")


@given(st.text(alphabet="./~a[]\"': \n,png", max_size=200))
def test_hostile_texts(text: str) -> None:
    find_image_mentions(text + ".png")


PIC = ImageBlock("AAAA", "image/png")


def turn(text: str) -> list[Message]:
    return [
        UserMessage((TextBlock(text), PIC)),
        ToolResult("c", "read", (PIC,)),
        AssistantMessage((TextBlock("seen"),)),
    ]


def test_images_of_old_turns_within() -> None:
    history = [message for n in range(5) for message in turn(str(n))]
    faded = within(history, Budget())
    assert [any(isinstance(b, ImageBlock) for b in m.content) for m in faded if isinstance(m, UserMessage)] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert faded[0] == UserMessage((TextBlock("0"), TextBlock(FADED_IMAGE)))
    assert faded[1] == ToolResult("c", "read", (TextBlock(FADED_IMAGE),))
    assert faded[6:] == tuple(history[6:])
    assert all(new is old for new, old in zip(faded[6:], history[6:], strict=True))
    assert within(history[:9], Budget()) == tuple(history[:9])
    assert within(faded, Budget()) == faded


def test_over_the_budget_the_oldest_give_way_down_to_half() -> None:
    history: list[UserMessage] = []
    seen: list[tuple[Message, ...]] = []
    for number in range(12):
        history.append(UserMessage((TextBlock(str(number)), ImageBlock("x" * 10, "image/png"))))
        seen.append(within(history, Budget(turns=99, images=6, chars=1000)))
    shown = [sum(isinstance(b, ImageBlock) for m in sent for b in m.content) for sent in seen]
    assert shown == [1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 3, 4]
    assert all(isinstance(sent[-1].content[1], ImageBlock) for sent in seen)  # the newest stays
    sizes = [
        sum(isinstance(b, ImageBlock) for m in within(history[:n], Budget(99, 99, 45)) for b in m.content)
        for n in range(6)
    ]
    assert sizes == [0, 1, 2, 3, 4, 2]


def test_an_image_that_gave_way_does_not_come_back_when_others_grow_old() -> None:
    crowd = [UserMessage(tuple(ImageBlock("x", "image/png") for _ in range(4))) for _ in range(3)]
    before = within(crowd, Budget(3, 6, 1000))
    after = within([*crowd, UserMessage("more")], Budget(3, 6, 1000))
    assert [m for m, o in zip(before, crowd, strict=True) if m == o] == crowd[2:]
    assert after[:3] == before
