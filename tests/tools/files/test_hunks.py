"""Reading patches: what models write, and what nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.files.hunks import AddFile, DeleteFile, PatchChunk, PatchError, PatchLine, UpdateFile, parse_patch

WHOLE = """*** Begin Patch
*** Add File: a/new.txt
+one
+
+two
*** Delete File: old.txt
*** Update File: b.py
*** Move to: c.py
@@ def f():
 keep
-gone
+come
*** End of File
*** End Patch"""

CHANGES = (
    AddFile("a/new.txt", "one\n\ntwo\n"),
    DeleteFile("old.txt"),
    UpdateFile(
        "b.py",
        "c.py",
        (PatchChunk(("def f():",), (PatchLine(" ", "keep"), PatchLine("-", "gone"), PatchLine("+", "come")), True),),
    ),
)


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"\n\n{WHOLE}\n\n",
        f"<<EOF\n{WHOLE}\nEOF",
        f"<<'EOF'\n{WHOLE}\nEOF\n",
        f'cat <<"PATCH"\n{WHOLE}\nPATCH',
        f"```\n{WHOLE}\n```",
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("*** Delete", "\n*** Delete"),
    ],
)
def test_the_grammar_and_what_is_around_it(text: str) -> None:
    assert parse_patch(text) == CHANGES


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "first line"),
        ("hello", "first line"),
        ("*** Begin Patch\n*** Add File: a\n+x", "last line"),
        (patch(), "changes no file"),
        (patch("*** Add File:"), "names no file"),
        (patch("*** Add File: a", "x"), "line 3 of the patch: every line of a new file"),
        (patch("*** Update File: a"), "holds no change"),
        (patch("*** Update File: a", "*** Move to:"), "names no file"),
        (patch("*** Update File: a", "@@"), "a hunk holds no line"),
        (patch("*** Update File: a", "@@", "no mark"), "begins with ' ', '-' or '+'"),
        (patch("*** Update File: a", "@@", "-x", "*** End of File", "-y"), "expected '@@'"),
        (patch("*** Rename File: a"), "expected '*** Add File:'"),
        (patch("--- a/x", "+++ b/x"), "expected"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(PatchError) as caught:
        parse_patch(text)
    assert says in str(caught.value)


PIECES = st.lists(
    st.sampled_from([*WHOLE.split("\n"), "", "@@", " x", "-", "+y", "*** Move to: z", "junk", "*** End of File"]),
    max_size=25,
)


@given(lines=PIECES)
def test_any_text_is_a_patch_or_an_error(lines: list[str]) -> None:
    for text in ("\n".join(lines), patch(*lines)):
        try:
            assert parse_patch(text)
        except PatchError as exc:
            assert str(exc)


def test_a_large_patch_is_read_quickly() -> None:
    (added,) = parse_patch(patch("*** Add File: big", *(["+" + "x" * 50] * 40_000)))
    assert isinstance(added, AddFile) and added.text.count("\n") == 40_000
    blank = patch("*** Add File: big", *([""] * 300_000), "+x")
    assert parse_patch(blank)  # hours, were every blank line to look ahead by itself
