from __future__ import annotations

import base64
from pathlib import Path

import pytest

from palinurus.cli.tui.paste import ClipboardReplies, PasteShelf, find_picture, load_picture, read_clipboard_picture


def test_long_text_is_a_mark_and_comes_back_whole() -> None:
    shelf = PasteShelf()
    long = "\n".join(map(str, range(30)))
    mark = shelf.fold(long)
    assert mark == "[pasted 1: 30 lines, 79 characters]" and shelf.fold("short") == "short"
    assert shelf.expand(f"see {mark}, please") == f"see {long}, please"
    assert shelf.fold(long + "\n").startswith("[pasted 2: 30 lines, ")  # a last line that is whole is no further one


@pytest.mark.parametrize("form", ["{0}", "'{0}'", '"{0}"', "file://{1}", "{2}"])
def test_a_dropped_picture_is_found_however_its_path_is_written(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a b.png"
    path.write_bytes(b"\x89PNG")
    text = form.format(path, str(path).replace(" ", "%20"), str(path).replace(" ", "\\ "))
    assert find_picture(text) == str(path)
    assert load_picture(str(path)) == ("a b.png", b"\x89PNG", "image/png")


def test_other_text_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    assert not any(
        map(find_picture, ("", "hello", "/nope.png", str(tmp_path / "x.txt"), "a.png", f"{tmp_path}\nx.png"))
    )


def test_only_pictures_whose_marks_are_left_go_along() -> None:
    shelf = PasteShelf()
    one, two = shelf.add_picture("1.png", b"a", "image/png"), shelf.add_picture("2.png", b"b", "image/png")
    assert [p["fileName"] for p in shelf.take_pictures(f"look at {two}")] == ["2.png"] and one != two


async def test_the_clipboard_is_read_by_the_program_that_is_there(tmp_path: Path) -> None:
    program = tmp_path / "xclip"
    program.write_text("#!/bin/sh\nprintf '\\211PNG rest'\n")
    program.chmod(0o755)
    environ = {"DISPLAY": ":0", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert await read_clipboard_picture(environ) == b"\x89PNG rest"
    assert await read_clipboard_picture({"PATH": str(tmp_path)}) == b""
    program.write_text("#!/bin/sh\nexit 1\n")
    assert await read_clipboard_picture(environ) == b""


async def test_a_mac_hands_its_clipboard_to_iterm2_without_another_program(tmp_path: Path) -> None:
    program = tmp_path / "osascript"
    program.write_text(
        "#!/bin/sh\n[ \"$2\" = 'the clipboard as «class PNGf»' ] && echo '«data PNGf89504E470D0A1A0A00FF»'\n"
    )
    program.chmod(0o755)
    environ = {"TERM_PROGRAM": "iTerm.app", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert await read_clipboard_picture(environ) == bytes.fromhex("89504E470D0A1A0A00FF")
    program.write_text("#!/bin/sh\necho '«data PNGf895»'\n")  # not even whole bytes
    assert await read_clipboard_picture(environ) == b""


def test_what_kitty_answers_is_a_picture_however_it_is_cut() -> None:
    picture = b"\x89PNG" + bytes(range(256))
    parts = [base64.b64encode(part).decode() for part in (picture[:100], picture[100:])]
    told = ["OK", f"DATA:mime=aW1hZ2UvcG5n;{parts[0]}", f"DATA:mime=aW1hZ2UvcG5n;{parts[1]}", "DONE"]
    whole = "a" + "b".join(f"\x1b]5522;type=read:status={one}\x1b\\" for one in told) + "c\x1b[A"
    for size in (1, 2, 3, 7, 50, len(whole)):
        heard: list[bytes] = []
        replies = ClipboardReplies()
        replies.ask(heard.append)
        rest = "".join(replies.feed(whole[at : at + size]) for at in range(0, len(whole), size))
        assert heard == [picture] and rest == "abbbc\x1b[A"


def test_a_no_is_no_picture_and_what_nobody_asked_for_is_typed() -> None:
    heard: list[bytes] = []
    replies = ClipboardReplies()
    assert replies.feed("\x1b") == "\x1b"  # nothing was asked: keys are not held back
    replies.ask(heard.append)
    assert replies.feed("\x1b]5522;type=read:status=EPERM\x1b\\x") == "x" and heard == [b""]
