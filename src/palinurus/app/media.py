"""Files that came in and files that go out, for channels. In: below the home, under names we choose. Out: only what
lies in a workspace, or behind an address that the one door lets through.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mimetypes
import os
import secrets
from collections.abc import AsyncIterable

import msgspec

from palinurus.beneath import read_file_beneath, strip_root
from palinurus.channels.kit import ChannelFile
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.speech import SpokenText
from palinurus.core.types.inbound import Attachment
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import StateError
from palinurus.files import NotPlainFile, sync_folder, write_whole_file
from palinurus.gateway.attachments import ATTACHMENT_BYTES, INBOUND_FOLDER
from palinurus.inbox.attachments import BringFile, FileAttacher, TranscriberPort
from palinurus.inbox.commands.command import KeepFile
from palinurus.patterns import compile_late
from palinurus.services.speech import AgentVoices
from palinurus.store.shared import SharedBytes
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest, FetchResponse
from palinurus.workspace.images import FetchImage

# What clients of the gateway send along, put where files from channels are put too.


def make_upload_saver(settings: Settings, door: EgressGuard, clock: Clock, store: SharedBytes) -> KeepFile:
    """Puts a file on disk and names it, or says why not."""
    folder = os.path.join(settings.home, INBOUND_FOLDER)
    return ChannelFiles(folder, (), ATTACHMENT_BYTES, door, clock=clock, store=store).save


def make_file_attacher(settings: Settings, ears: TranscriberPort, store: SharedBytes) -> FileAttacher:
    """Puts what files say into messages, wherever they came in."""
    heard = settings.audio
    return FileAttacher(ears, heard.scope, heard.together, bring=_make_bringer(settings.home, store))


def _make_bringer(home: str, store: SharedBytes) -> BringFile:
    """Lays a file that came in through another node where one of ours would be. Raises StateError kinds."""

    async def bring(file: Attachment) -> Attachment:
        here = os.path.join(home, INBOUND_FOLDER, os.path.basename(file.path))
        if os.path.exists(file.path):
            return file
        if not os.path.exists(here):
            data = await store.get_blob(os.path.basename(file.path))
            if data is None:
                return file  # whoever opens it says that it is gone
            await asyncio.to_thread(lay_out_file, here, data)
        return msgspec.structs.replace(file, path=here)

    return bring


def lay_out_file(path: str, data: bytes) -> None:
    """Write what another node had."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_whole_file(path, data, sync=False)  # after a crash it is brought again


def make_image_fetcher(door: EgressGuard) -> FetchImage:
    """Fetches images that a person names by their address."""

    async def fetch(url: str, most: int) -> bytes | str:
        found = await _fetch(door, url, FetchLimits(most, _PICTURE_TIME, types=_PICTURE))
        return found if isinstance(found, str) else found.data

    return fetch


_PICTURE = compile_late(r"image/|application/octet-stream")
_PICTURE_TIME = 15.0  # seconds: a person waits for the answer
_UNSAFE = compile_late(r"[^\w.-]+")
_TIME = 60.0


class VoiceNoteMaker:
    """Implements `tools.media.speech.SpeakerPort`."""

    def __init__(self, voices: AgentVoices) -> None:
        self._voices = voices

    async def say(self, text: str, agent: str, channel: str, timeout: float | None) -> tuple[str, str, bool]:
        use = self._voices.choose_use(channel) or "file"
        made = await self._voices.speak(SpokenText(text, agent=agent), use, timeout=timeout)
        if isinstance(made, ModelFailure):
            raise ToolFailure(made.message)
        return made.path, made.provider, made.note and use == "note"


class ChannelFiles:
    """Implements `channels.kit.ChannelMedia` for one account; `most` is the largest file that is kept. `store` gets it,
    too, for whichever node runs the message."""

    def __init__(
        self,
        folder: str,
        roots: tuple[str, ...],
        most: int,
        door: EgressGuard,
        clock: Clock,
        store: SharedBytes | None = None,
    ) -> None:
        self._folder = folder
        self._roots = roots
        self._most = most
        self._door = door
        self._clock = clock
        self._store = store

    async def save(self, name: str, mime: str, data: bytes | AsyncIterable[bytes]) -> Attachment | str:
        whole = data if isinstance(data, bytes) else await self._read(data)
        if whole is None or len(whole) > self._most:
            return f"{name[:80]} is larger than {self._most // (1024 * 1024)} MB (mediaMaxMb) and was not taken"
        kind = mime.partition(";")[0].strip().lower() or "application/octet-stream"
        path = os.path.join(self._folder, f"{self._clock.now()}-{secrets.token_hex(4)}-{_named(name, kind)}")
        try:
            await asyncio.to_thread(_write, path, whole)
        except OSError as exc:
            return f"{name[:80]} could not be kept: {exc.strerror}"
        if self._store is not None:
            try:
                await self._store.put_blob(os.path.basename(path), whole)  # before the message that has it is accepted
            except StateError as exc:
                return f"{name[:80]} could not be kept: {exc.message}"
        return Attachment(path, name[:200], kind, len(whole))

    async def offer(self, name: str, data: bytes) -> str:
        try:
            await self._store.put_blob(name, data) if self._store is not None else None
        except StateError as exc:
            return exc.message
        return ""

    async def find_offered(self, name: str) -> bytes | None:
        with contextlib.suppress(StateError):
            return await self._store.get_blob(name) if self._store is not None else None
        return None

    async def _read(self, chunks: AsyncIterable[bytes]) -> bytes | None:
        held = bytearray()
        async for chunk in chunks:
            held += chunk
            if len(held) > self._most:
                return None
        return bytes(held)

    async def load(self, source: str, most: int) -> ChannelFile | str:
        if source.startswith(("http://", "https://")):
            return await self._fetch(source, most)
        name = os.path.basename(source)
        # By name: which file may be sent was decided before (the owner's memory may not), and a link could lead to it.
        found = ((root, inner) for root in self._roots if (inner := strip_root(root, source)))
        root, inner = next(found, ("", ""))
        if not inner:
            return f"{name[:80]} is not in a workspace"
        try:
            data = await asyncio.to_thread(read_file_beneath, root, inner, most)
        except NotPlainFile as exc:
            return str(exc)
        except OSError as exc:
            return f"{name[:80]} cannot be read: {'it is a link' if exc.errno == errno.ELOOP else exc.strerror}"
        return ChannelFile(name, mimetypes.guess_type(name)[0] or "application/octet-stream", data)

    async def _fetch(self, url: str, most: int) -> ChannelFile | str:
        found = await _fetch(self._door, url, FetchLimits(most, _TIME))
        if isinstance(found, str):
            return found
        kind = found.type or "application/octet-stream"
        return ChannelFile(_named(found.url.partition("?")[0].rpartition("/")[2], kind), kind, found.data)


async def _fetch(door: EgressGuard, url: str, limits: FetchLimits) -> FetchResponse | str:
    """What is there, whole, or why not."""
    try:
        found = await door.get(FetchRequest(url), limits)
    except FetchFailure as exc:
        return str(exc)
    if found.status != 200 or found.cut:
        return f"{url[:200]}: {'larger than can be sent' if found.cut else f'answered {found.status}'}"
    return found


def _named(name: str, mime: str) -> str:
    """A file name that is only a name."""
    stem, suffix = os.path.splitext(_UNSAFE.sub("_", os.path.basename(name.replace("\\", "/"))).strip("._"))
    return (stem[:60] or "file") + (suffix[:12] or mimetypes.guess_extension(mime) or "")


def _write(path: str, data: bytes) -> None:
    names = [os.path.dirname(path)]  # folders that get a name with it
    while not os.path.isdir(names[-1]):
        names.append(os.path.dirname(names[-1]))
    os.makedirs(names[0], mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    for folder in names:  # the message that has it is about to be accepted
        sync_folder(folder)
