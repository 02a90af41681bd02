"""Files that are open in an editor: what is asked of it, when it is not asked, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.editor import EditorAnswer, EditorOrder

PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-one
+two
*** Add File: new/b.txt
+b
*** Delete File: old.txt
*** End Patch"""


class FakeEditor:
    """Implements EditorPort over files on disk. `meanwhile` happens before the commands are held still."""

    def __init__(self) -> None:
        self.abilities = {"read", "write"}
        self.asked: list[tuple[str, str]] = []
        self.unsaved: dict[str, str] = {}
        self.answer: EditorAnswer | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self.held = 0

    def offers(self, session: str, ability: str) -> bool:
        return ability in self.abilities

    async def ask(self, order: EditorOrder, seconds: float) -> EditorAnswer:
        assert self.held == 1
        path = order.params["path"]
        self.asked.append((order.action, path))
        if self.answer is not None:
            return self.answer
        if order.action == "read":
            return EditorAnswer(True, {"text": self.unsaved.get(path, Path(path).read_text(errors="replace"))})
        Path(path).write_text(order.params["text"])
        self.unsaved.pop(path, None)
        return EditorAnswer(True)

    @contextmanager
    def hold(self, roots: tuple[str, ...]) -> Iterator[None]:
        self.meanwhile()
        self.held += 1
        yield
        self.held -= 1


@pytest.fixture
def editor(ctx: Any) -> FakeEditor:
    made = FakeEditor()
    ctx.set(editor=made)
    return made


async def test_patches_go_through_the_editor_and_removals_do_not(do: Any, workspace: Path, editor: FakeEditor) -> None:
    (workspace / "a.txt").write_text("one\n")
    (workspace / "old.txt").write_text("x\n")
    editor.unsaved[str(workspace / "a.txt")] = "zero\none\n"
    result = await do("apply_patch", input=PATCH)
    assert result.text == "Success. Updated the following files:\nA new/b.txt\nM a.txt\nD old.txt"
    assert (workspace / "a.txt").read_text() == "zero\ntwo\n"  # what the person had typed is in it
    assert (workspace / "new" / "b.txt").read_text() == "b\n" and not (workspace / "old.txt").exists()
    written = [path for action, path in editor.asked if action == "write"]
    assert written == [str(workspace / "a.txt")] * 2 + [str(workspace / "new" / "b.txt")]


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"\xef\xbb\xbfa\n", b"caf\xe9\n"])
async def test_what_editors_would_change_is_written_by_us(
    do: Any, workspace: Path, editor: FakeEditor, data: bytes
) -> None:
    (workspace / "f").write_bytes(data)
    assert not (await do("edit", path="f", edits=[{"oldText": "a", "newText": "A"}])).isError
    assert (workspace / "f").read_bytes() == data.replace(b"a", b"A", 1)
    assert all(action == "read" for action, _ in editor.asked)


@pytest.mark.parametrize("answer", [EditorAnswer(False, why="it hangs", gone=True), EditorAnswer(False, why="no")])
async def test_an_editor_that_fails_leaves_the_disk(
    do: Any, workspace: Path, editor: FakeEditor, answer: EditorAnswer
) -> None:
    (workspace / "f").write_text("old")
    editor.answer = answer
    assert (await do("read", path="f")).text == (
        f"old\n\n[{answer.why}; this is the file on disk, and the editor may hold changes that are not saved.]"
    )
    result = await do("edit", path="f", edits=[{"oldText": "old", "newText": "new"}])
    assert (workspace / "f").read_text() == "new" and f"({answer.why}, so it was written on disk" in result.text


async def test_a_file_that_became_a_link_is_not_handed_to_the_editor(
    do: Any, ctx: Any, workspace: Path, tmp_path: Path, editor: FakeEditor
) -> None:
    ctx.set(workspace_only=True)
    secret, file = tmp_path / "secret", workspace / "f"
    secret.write_text("s3cret")
    file.write_text("mine")

    def swap() -> None:
        file.unlink(missing_ok=True)
        file.symlink_to(secret)

    editor.meanwhile = swap
    assert "s3cret" not in (await do("read", path="f")).text
    file.unlink()
    file.write_text("mine")
    result = await do("write", path="f", content="x")
    assert result.isError and editor.asked == [] and secret.read_text() == "s3cret"


async def test_pictures_and_other_folders_are_not_the_editors(
    do: Any, ctx: Any, workspace: Path, tmp_path: Path, editor: FakeEditor
) -> None:
    (workspace / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (tmp_path / "else").write_text("there")
    assert "image/png" in (await do("read", path="p.png")).text
    assert (await do("read", path=str(tmp_path / "else"))).text == "there"
    assert editor.asked == []


async def test_a_failed_edit_changes_nothing_but_saves(do: Any, workspace: Path, editor: FakeEditor) -> None:
    (workspace / "f").write_text("saved")
    editor.unsaved[str(workspace / "f")] = "typed"
    result = await do("edit", path="f", edits=[{"oldText": "absent", "newText": "x"}])
    assert result.isError and (workspace / "f").read_text() == "typed"
