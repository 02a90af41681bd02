from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.images import FADED, fade, mentions
from palinurus.core.types.messages import Assistant, Image, Message, Text, ToolResult, User


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


def test_images_of_old_turns_fade() -> None:
    history = [message for n in range(5) for message in turn(str(n))]
    faded = fade(history)
    assert [any(isinstance(b, Image) for b in m.content) for m in faded if isinstance(m, User)] == [
        False, False, True, True, True,
    ]  # fmt: skip
    assert faded[0] == User((Text("0"), Text(FADED)))
    assert faded[1] == ToolResult("c", "read", (Text(FADED),))
    assert faded[6:] == tuple(history[6:])
    assert all(new is old for new, old in zip(faded[6:], history[6:], strict=True))
    assert fade(history[:9]) == tuple(history[:9])
    assert fade(faded) == faded
