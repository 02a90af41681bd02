"""Files that are open in an editor: its unsaved text is what `read` shows, and changes go by way of its buffer, so that
its person sees them come and can take them back there.

The editor opens paths with its person's rights and follows links. So a place is judged and opened by us first, no
contained command goes on meanwhile, and what it wrote is read back by us. Whatever it does not do is done on disk.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import tempfile
from collections.abc import Iterator

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.types.editor import EditorAbility, EditorAnswer, EditorOrder, EditorPort
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.files import find_real_path
from palinurus.tasks import finish_in_thread
from palinurus.tools.commands.exposure import list_own_folders
from palinurus.tools.files import handles
from palinurus.tools.files.paths import ResolvedPath, resolve_path

SECONDS = 10.0
MOST = 2_000_000  # bytes of a file that editors are asked about
UNSAVED = (
    "[This is the text in the person's editor, which is not saved: commands and searches see an older one on disk.]"
)
ON_DISK = "[{why}; this is the file on disk, and the editor may hold changes that are not saved.]"
BY_US = " ({why}, so it was written on disk; the editor may ask its person to load it again.)"
REFORMED = " (The editor saved it in a form of its own, perhaps formatted: read it again before the next edit.)"


class BufferView(msgspec.Struct, frozen=True):
    """What the editor knows of a file: `text` where it is another than on disk; `note` for who reads the result."""

    text: bytes | None = None
    note: str = ""

    @contextlib.contextmanager
    def open(self) -> Iterator[int]:
        """The text as an open file."""
        with tempfile.TemporaryFile() as file:
            file.write(self.text or b"")
            file.seek(0)
            yield file.fileno()


async def view_buffer(ctx: ToolContext, place: ResolvedPath, handle: int) -> BufferView:
    """Of a file that is open here, from its beginning; the handle stands there again afterwards."""
    if (editor := _find_editor(ctx, place, "read")) is None:
        return BufferView()
    data = handles.read_bytes(handle, MOST + 1)
    os.lseek(handle, 0, os.SEEK_SET)
    if not _is_text(data):
        return BufferView()
    answer = await _ask(editor, ctx, place, data)
    if not answer.ok:
        return BufferView(note=ON_DISK.format(why=answer.why))
    text = str(answer.told.get("text", "")).encode("utf-8", "replace")
    return BufferView() if _level(text) == _level(data) else BufferView(text, UNSAVED)


async def save_buffers(ctx: ToolContext, paths: tuple[str, ...]) -> None:
    """Before files are changed: have the editor save what is not saved of them. So the change is made to what the
    person sees, and what is kept for `pal undo` is that as well."""
    for path in paths:
        with contextlib.suppress(ToolFailure):  # the tool itself says what is wrong with it
            place = resolve_path(path, ctx)
            async with handles.lock_path(place):
                await _save(ctx, place)


async def _save(ctx: ToolContext, place: ResolvedPath) -> None:
    editor = _find_editor(ctx, place, "read")
    if editor is None or not editor.offers(ctx.session, "write"):
        return
    data = handles.read_whole(place, MOST + 1)
    answer = await _ask(editor, ctx, place, data) if _is_plain(data) else EditorAnswer(False)
    text = str(answer.told.get("text", ""))
    if answer.ok and _level(text.encode("utf-8", "replace")) != _level(data):
        await _ask(editor, ctx, place, data, text=text)


async def put_file(ctx: ToolContext, place: ResolvedPath, data: bytes) -> PutOutcome:
    """`handles.replace_file`, by way of the editor's buffer where there is one. Raises ToolFailure."""
    if (done := await put_in_buffer(ctx, place, data)) is not None:
        return done
    if len(data) < handles.SMALL_FILE:
        return PutOutcome(handles.replace_file(place, data))
    return PutOutcome(await finish_in_thread(handles.replace_file, place, data))


async def put_in_buffer(ctx: ToolContext, place: ResolvedPath, data: bytes) -> PutOutcome | None:
    """The same where an editor offers it; None: it is yet to be done. Raises ToolFailure."""
    editor = _find_editor(ctx, place, "write")
    old = _read_old(place) if editor is not None and _is_plain(data) else None
    if editor is None or old is None or not _is_plain(old):
        return None
    new = not old and not handles.has_file(place)
    if new:  # with the folders on the way, and as a file of ours: the editor finds what it is to fill
        handles.replace_file(place, b"")
    answer = await _ask(editor, ctx, place, old, text=data.decode())
    now = _read_old(place)
    if now == data:
        return PutOutcome(new)
    if answer.ok and now is not None and now != old:
        return PutOutcome(new, REFORMED)
    handles.replace_file(place, data)
    return PutOutcome(new, BY_US.format(why=answer.why or "the editor did not save it"))


class PutOutcome(msgspec.Struct, frozen=True):
    """Was the file new, and what is to be told of how it was written?"""

    new: bool
    note: str = ""


def _find_editor(ctx: ToolContext, place: ResolvedPath, ability: EditorAbility) -> EditorPort | None:
    editor = ctx.settings.editor
    if editor is None or not editor.offers(ctx.session, ability):
        return None
    return editor if is_inside(place.real, find_real_path(ctx.workspace)) else None


async def _ask(
    editor: EditorPort, ctx: ToolContext, place: ResolvedPath, held: bytes, text: str | None = None
) -> EditorAnswer:
    """Ask for the text of a file that holds `held`, or for `text` to be put there."""
    with editor.hold(list_own_folders(ctx)):
        if _read_old(place) != held:  # again, now that nobody goes on: what is there is the file that was judged
            return EditorAnswer(False, why="the file changed meanwhile")
        params = {"path": place.real} if text is None else {"path": place.real, "text": text}
        return await editor.ask(EditorOrder(ctx.session, "read" if text is None else "write", params), SECONDS)


def _read_old(place: ResolvedPath) -> bytes | None:
    """What the file holds; nothing if there is none; None if it is none of ours to look at."""
    try:
        return handles.read_whole(place, MOST + 1) if handles.has_file(place) else b""
    except ToolFailure:
        return None


def _is_text(data: bytes) -> bool:
    return len(data) <= MOST and b"\0" not in data[:8192]


def _is_plain(data: bytes) -> bool:
    """Does it come through an editor as it is? Many change the ends of lines, and what is no UTF-8."""
    if not _is_text(data) or b"\r" in data or data.startswith(codecs.BOM_UTF8):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _level(data: bytes) -> bytes:
    """Without what editors do not tell apart."""
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").encode().replace(b"\r\n", b"\n")
