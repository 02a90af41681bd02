"""Finding the places of a patch in a text, and what comes out."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.tools.files.hunks import BEGIN, END, PatchError, UpdateFile, apply_chunks, parse_patch


def patched(text: str, *hunk: str, path: str = "f") -> str:
    (update,) = parse_patch("\n".join((BEGIN, f"*** Update File: {path}", *hunk, END)))
    assert isinstance(update, UpdateFile)
    return apply_chunks(text, update.chunks, path)


def as_patch(old: str, new: str) -> str:
    """The difference of two texts in the grammar; every line unchanged around it is context."""
    lines = [BEGIN, "*** Update File: f", "@@"]
    for line in difflib.ndiff(old.splitlines(), new.splitlines()):
        if line[0] in " +-":
            lines.append(line[0] + line[2:])
    return "\n".join([*lines, END])


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=12)
TEXT = st.lists(LINE, max_size=12).map(lambda lines: "".join(f"{line}\n" for line in lines))
FEW = st.lists(st.sampled_from(["a", "b", "  a", "", "@@", "*** x", "-", "+"]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(old=TEXT | FEW, new=TEXT | FEW)
@settings(max_examples=300)
def test_the_difference_of_two_texts_applied_to_one_is_the_other(old: str, new: str) -> None:
    if not old and not new:
        return
    (update,) = parse_patch(as_patch(old, new))
    assert isinstance(update, UpdateFile)
    assert apply_chunks(old, update.chunks, "f") == new


@given(old=st.lists(st.integers(0, 9999), min_size=30, max_size=60, unique=True), data=st.data())
def test_several_hunks_are_found_one_after_another(old: list[int], data: st.DataObject) -> None:
    lines = [str(n) for n in old]
    spots = sorted(data.draw(st.sets(st.integers(2, len(lines) - 3), min_size=1, max_size=5)))
    spots = [s for i, s in enumerate(spots) if i == 0 or s - spots[i - 1] > 3]
    hunk, wanted = [], list(lines)
    for s in spots:
        hunk += ["@@", f" {lines[s - 1]}", f"-{lines[s]}", f"+new {s}", f" {lines[s + 1]}"]
        wanted[s] = f"new {s}"
    assert patched("\n".join(lines) + "\n", *hunk) == "\n".join(wanted) + "\n"


@pytest.mark.parametrize(
    ("text", "hunk", "expected"),
    [
        ("a\nb\nc\n", ["@@", " a", "-b", "+B", " c"], "a\nB\nc\n"),
        ("a\nb\nc\n", ["-b", "+B"], "a\nB\nc\n"),  # the first hunk may do without @@
        ("a \nb\nc\n", ["@@", " a", "-b", "+B"], "a \nB\nc\n"),  # spaces at the end; the file's own stay
        ("\ta\n    b\n", ["@@", " a", "-b", "+    B"], "\ta\n    B\n"),  # both ends
        ("it’s – “x”\nb\n", ["@@", " it's - \"x\"", "-b", "+B"], "it’s – “x”\nB\n"),  # typography
        ("x\ndef f():\n  1\ndef g():\n  1\n", ["@@ def g():", "-  1", "+  2"], "x\ndef f():\n  1\ndef g():\n  2\n"),
        ("class A:\n def f():\n  1\nclass B:\n def f():\n  1\n", ["@@ class B:", "@@  def f():", "-  1", "+  2"],
         "class A:\n def f():\n  1\nclass B:\n def f():\n  2\n"),
        ("a\nb\na\nb\n", ["@@", "-b", "+B", "*** End of File"], "a\nb\na\nB\n"),
        ("a\nb\na\nb\n", ["@@", "-b", "+B", "@@", "-b", "+C"], "a\nB\na\nC\n"),
        ("a\n", ["@@", "+z"], "a\nz\n"),  # nothing to find: at the end
        ("", ["@@", "+z"], "z\n"),
        ("h\na\n", ["@@ h", "+z"], "h\nz\na\n"),  # nothing to find but a header: after it
        ("a\r\nb\r\n", ["@@", " a", "-b", "+B", "+C"], "a\r\nB\r\nC\r\n"),  # line ends stay as they are
        ("a\nb", ["@@", "-b", "+B"], "a\nB"),  # … and the missing one at the end too
        ("a\n\nb\n", ["@@", " a", "", "-b", "+B"], "a\n\nB\n"),  # a blank line is a kept blank line
        ("a\nb\n", ["@@", " a", "-b", "+B", " "], "a\nB\n"),  # one too many at the end is forgiven
        ("a\n", ["@@", "-a"], ""),
    ],
)  # fmt: skip
def test_places(text: str, hunk: list[str], expected: str) -> None:
    assert patched(text, *hunk) == expected


@pytest.mark.parametrize(
    ("hunk", "says"),
    [
        (["@@", " a", "-nope", "+B"], "dir/f: these lines were not found:\na\nnope"),
        (["@@ nowhere", "-b", "+B"], "dir/f: the line after @@ was not found: 'nowhere'"),
        (["@@", "-c", "+C", "@@", "-a", "+A"], "dir/f: these lines were not found after line 3:\na"),
        (["@@", *(f"-{n}" for n in range(50))], "… (50 lines)"),
    ],
)
def test_what_is_not_there(hunk: list[str], says: str) -> None:
    with pytest.raises(PatchError) as caught:
        patched("a\nb\nc\n", *hunk, path="dir/f")
    assert says in str(caught.value)


@given(text=TEXT, junk=st.lists(LINE, min_size=1, max_size=20))
def test_any_hunk_gives_a_text_or_a_patch_error(text: str, junk: list[str]) -> None:
    try:
        patched(text, *junk)
    except (PatchError, AssertionError, ValueError):
        pass
