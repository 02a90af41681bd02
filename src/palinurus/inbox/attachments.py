"""What files that came with a message say, put into the message before its turn begins: pictures are seen, recordings
become words, everything else a line with its place. The message is on disk by then, and no channel waits.

At kill -9 the turn begins again: links made twice are one, and words once heard lie beside their recording, so nobody
is asked (and paid) twice. Knows files and the port that hears; knows no provider.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Protocol, TypeAlias

import msgspec

from palinurus.config.sections.bindings import SendPolicy
from palinurus.core.media import MAX_IMAGE_SOURCE, read_duration
from palinurus.core.types.inbound import Attachment, Inbound
from palinurus.core.types.messages import ImageBlock
from palinurus.core.types.model import ModelFailure
from palinurus.core.untrusted import clean_label, make_inert
from palinurus.errors import StateError
from palinurus.providers.transcribe import SoundRecording
from palinurus.tools.web.shrink import shrink_image
from palinurus.workspace.images import ImageLimits, resize_images, sniff_image

log = logging.getLogger(__name__)

# A file that may lie on another node, as it lies here.
BringFile: TypeAlias = Callable[[Attachment], Awaitable[Attachment]]

WORDS = ".words"  # beside a recording: what is said in it
RECORDING = 64 << 20  # bytes of a recording that is looked at


class TranscriberPort(Protocol):
    """Who turns recordings into words (`providers/transcribe.py`)."""

    async def transcribe(self, sound: SoundRecording) -> str | ModelFailure: ...


class _Heard(msgspec.Struct, frozen=True):
    """A line for the model. `source`: whose words it brings along, if not the sender's own."""

    text: str
    source: str = ""


class FileAttacher:
    """Implements `agent.plan.sandbox.AttachFiles`."""

    def __init__(
        self,
        ears: TranscriberPort,
        scope: SendPolicy | None = None,
        together: int = 1,
        bring: BringFile | None = None,
    ) -> None:
        self._bring = bring  # files that came in through another node
        self._ears = ears
        self._together = together  # recordings of one message that are listened to at the same time
        self._scope = scope or SendPolicy()  # tools.media.audio.scope

    async def __call__(self, inbound: Inbound, folder: str, side: int, vision: bool) -> Inbound:
        """The message with what its files say. Raises nothing: what does not work is told in the message."""
        came = [await self._brought(one) for one in inbound.files]
        files = tuple([await asyncio.to_thread(_placed, one, folder) for one in came])
        paths = [one.path for one in files if vision and one.mime.startswith("image/")]
        pictures = [await asyncio.to_thread(_image, path) for path in paths]
        seen = await resize_images(
            tuple([one for one in pictures if one is not None]), ImageLimits(side=side, shrink=shrink_image)
        )
        hears = self._scope.allows(inbound.session, inbound.target.channel, inbound.kind)
        heard = await self._hear([one for one in files if hears and (one.voice or one.mime.startswith("audio/"))])
        text = "\n".join(part for part in (inbound.text, *(one.text for one in heard), *seen.notes) if part)
        source = inbound.source or next((one.source for one in heard if one.source), "")
        images = (*inbound.images, *seen.images)
        kept = tuple(one for one in files if not (one.voice and hears))
        spoken = inbound.spoken or any(one.voice for one in files)
        return msgspec.structs.replace(inbound, text=text, images=images, files=kept, source=source, spoken=spoken)

    async def _brought(self, file: Attachment) -> Attachment:
        try:
            return await self._bring(file) if self._bring is not None else file
        except (OSError, StateError) as exc:
            log.warning("a file of another node could not be laid out here: %s", exc)
            return file

    async def _hear(self, files: list[Attachment]) -> list[_Heard]:
        room = asyncio.Semaphore(self._together)

        async def hear(file: Attachment) -> _Heard:
            async with room:
                return await self._heard(file)

        return await asyncio.gather(*map(hear, files))

    async def _heard(self, file: Attachment) -> _Heard:
        data = await asyncio.to_thread(_read, file.path, RECORDING)
        long = read_duration(data) if data else 0
        name = "voice note" if file.voice else f"recording {clean_label(file.name, 80)}"
        head = f"{name}, {long} s" if long else name
        if not data:
            return _Heard(f"[{head}: could not be read]")
        words = await asyncio.to_thread(_known, file.path)
        if words is None:
            found = await self._ears.transcribe(SoundRecording(file.path, file.name, file.mime, data))
            if isinstance(found, ModelFailure):
                where = f"; {file.path}" if file.voice else ""
                return _Heard(f"[{head}: could not be transcribed: {clean_label(found.message, 200)}{where}]")
            words = found
            await asyncio.to_thread(_note, file.path, words)
        if file.voice:
            return _Heard(f"[{head}] {words}")
        return _Heard(f"[{head}, what is said in it:\n{make_inert(words)}\n]", f"audio {clean_label(file.name, 60)}")


def sweep_media_files(home: str, before: float) -> int:
    """Remove files that came in, and speech that was made, before a moment (seconds since 1970), and empty folders.
    Returns how many files."""
    gone = 0
    every = (os.walk(os.path.join(home, "media", name), topdown=False) for name in ("inbound", "speech"))
    for folder, _, names in chain.from_iterable(every):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.lstat(path).st_mtime < before:
                    os.unlink(path)
                    gone += 1
            except OSError:  # somebody else was quicker
                continue
        try:
            os.rmdir(folder)
        except OSError:  # not empty
            continue
    return gone


def _placed(file: Attachment, folder: str) -> Attachment:
    """The file under its session's folder. A link, because other agents may have been sent the same message."""
    path = os.path.join(folder, os.path.basename(file.path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.path.exists(path):
            _linked(file.path, path)
    except OSError:
        return file
    return msgspec.structs.replace(file, path=path)


def _linked(source: str, path: str) -> None:
    try:
        os.link(source, path)
    except FileExistsError:
        return
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, path)


def _image(path: str) -> ImageBlock | None:
    data = _read(path, MAX_IMAGE_SOURCE)
    return ImageBlock(base64.b64encode(data).decode(), sniff_image(data) or "image/*") if data else None


def _read(path: str, most: int) -> bytes:
    """b"" for what is not there, or too large."""
    try:
        with open(path, "rb") as source:
            data = source.read(most + 1)
    except OSError:
        return b""
    return data if len(data) <= most else b""


def _known(path: str) -> str | None:
    try:
        with open(path + WORDS, encoding="utf-8") as source:
            return source.read()
    except (OSError, UnicodeDecodeError):
        return None


def _note(path: str, words: str) -> None:
    """Best effort: without it the recording is heard again after a crash."""
    part = f"{path}{WORDS}.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(words)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path + WORDS)
    except OSError:
        return
