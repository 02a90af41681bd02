from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.images import FADED, Budget, border, fade, mentions
from palinurus.core.types.messages import Assistant, Image, Message, Text, ToolResult, User


def within(messages: Sequence[Message], budget: Budget) -> tuple[Message, ...]:
    return fade(messages, border(messages, budget))


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
    assert mentions(text).paths == paths


def test_inline_images_leave_the_text() -> None:
    found = mentions("a data:image/PNG;base64,iVBORw0KGgoAAAANSUhEUg== b")
    assert found == ((), (Image("iVBORw0KGgoAAAANSUhEUg==", "image/png"),), "a [image] b")


@given(st.text(alphabet="./~a[]\"': \n,png", max_size=200))
def test_hostile_texts(text: str) -> None:
    mentions(text + ".png")


PIC = Image("AAAA", "image/png")


def turn(text: str) -> list[Message]:
    return [User((Text(text), PIC)), ToolResult("c", "read", (PIC,)), Assistant((Text("seen"),))]


def test_images_of_old_turns_within() -> None:
    history = [message for n in range(5) for message in turn(str(n))]
    faded = within(history, Budget())
    assert [any(isinstance(b, Image) for b in m.content) for m in faded if isinstance(m, User)] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert faded[0] == User((Text("0"), Text(FADED)))
    assert faded[1] == ToolResult("c", "read", (Text(FADED),))
    assert faded[6:] == tuple(history[6:])
    assert all(new is old for new, old in zip(faded[6:], history[6:], strict=True))
    assert within(history[:9], Budget()) == tuple(history[:9])
    assert within(faded, Budget()) == faded


def test_over_the_budget_the_oldest_give_way_down_to_half() -> None:
    history: list[User] = []
    seen: list[tuple[Message, ...]] = []
    for number in range(12):
        history.append(User((Text(str(number)), Image("x" * 10, "image/png"))))
        seen.append(within(history, Budget(turns=99, images=6, chars=1000)))
    shown = [sum(isinstance(b, Image) for m in sent for b in m.content) for sent in seen]
    assert shown == [1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 3, 4]
    assert all(isinstance(sent[-1].content[1], Image) for sent in seen)  # the newest stays
    sizes = [
        sum(isinstance(b, Image) for m in within(history[:n], Budget(99, 99, 45)) for b in m.content) for n in range(6)
    ]
    assert sizes == [0, 1, 2, 3, 4, 2]


def test_an_image_that_gave_way_does_not_come_back_when_others_grow_old() -> None:
    crowd = [User(tuple(Image("x", "image/png") for _ in range(4))) for _ in range(3)]
    before = within(crowd, Budget(3, 6, 1000))
    after = within([*crowd, User("more")], Budget(3, 6, 1000))
    assert [m for m, o in zip(before, crowd, strict=True) if m == o] == crowd[2:]
    assert after[:3] == before
