"""The one file of a backup: a tar with a list of its contents at the end, packed, sealed if a passphrase is given.

Layout: MAGIC, 1 byte (0 open, 1 sealed); sealed: salt and stream header, then chunks of the gzip stream, each sealed
and with its length; open: the gzip stream.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import struct
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
from nacl import bindings, exceptions, pwhash

from palinurus.errors import BadRequest

MAGIC = b"PALBACKUP1"
LIST = "contents.json"
_CHUNK = 1 << 16
_AD = 17  # bytes that sealing adds to a chunk
_LIMITS = (pwhash.argon2id.OPSLIMIT_INTERACTIVE, pwhash.argon2id.MEMLIMIT_INTERACTIVE)


class BackupEntry(msgspec.Struct, frozen=True):
    """A file in it."""

    place: str
    size: int
    mode: int
    sha256: str


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """What is in it, and what is not. `left`: folders outside the home that agents work in."""

    version: str
    at: int
    home: str
    entries: tuple[BackupEntry, ...] = ()
    left: tuple[str, ...] = ()


class SealedWriter(io.RawIOBase):
    """Seals what is written to it; `finish` ends the stream, without which it cannot be read."""

    def __init__(self, out: BinaryIO, passphrase: str) -> None:
        self._out = out
        salt = os.urandom(pwhash.argon2id.SALTBYTES)
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        head = bindings.crypto_secretstream_xchacha20poly1305_init_push(self._state, _derive_key(passphrase, salt))
        out.write(salt + head)
        self._rest = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(bytes(data))  # type: ignore[call-overload]
        self._rest += bytes(data)  # type: ignore[call-overload]
        while len(self._rest) >= _CHUNK:
            self._put(bytes(self._rest[:_CHUNK]), bindings.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE)
            del self._rest[:_CHUNK]
        return size

    def finish(self) -> None:
        self._put(bytes(self._rest), bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL)

    def _put(self, data: bytes, tag: int) -> None:
        sealed = bindings.crypto_secretstream_xchacha20poly1305_push(self._state, data, None, tag)
        self._out.write(struct.pack(">I", len(sealed)) + sealed)


class SealedReader(io.RawIOBase):
    """The other way. Raises BadRequest for a wrong passphrase, and for a file that was cut or changed."""

    def __init__(self, source: BinaryIO, passphrase: str) -> None:
        salt = source.read(pwhash.argon2id.SALTBYTES)
        head = source.read(bindings.crypto_secretstream_xchacha20poly1305_HEADERBYTES)
        self._source = source
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        try:
            key = _derive_key(passphrase, salt)
            bindings.crypto_secretstream_xchacha20poly1305_init_pull(self._state, head, key)
        except (exceptions.CryptoError, ValueError):
            raise BadRequest(
                "the backup is cut off", fix="copy it again from where it was made, or restore an earlier one"
            ) from None
        self._rest = b""
        self._final = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        if not self._rest and not self._final:
            self._rest = self._next()
        taken, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)

    def _next(self) -> bytes:
        size = self._source.read(4)
        sealed = self._source.read(struct.unpack(">I", size)[0]) if len(size) == 4 else b""
        if len(sealed) < _AD:
            raise BadRequest(
                "the backup is cut off", fix="copy it again from where it was made, or restore an earlier one"
            )
        try:
            data, tag = bindings.crypto_secretstream_xchacha20poly1305_pull(self._state, sealed, None)
        except (exceptions.CryptoError, RuntimeError):
            raise BadRequest(
                "wrong passphrase, or the backup was changed",
                fix="type the passphrase it was made with; nothing was changed here",
            ) from None
        self._final = tag == bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL
        return bytes(data)


def _derive_key(passphrase: str, salt: bytes) -> bytes:
    size = bindings.crypto_secretstream_xchacha20poly1305_KEYBYTES
    return pwhash.argon2id.kdf(size, passphrase.encode(), salt, *_LIMITS)


class BoxWriter:
    """Adds file after file."""

    def __init__(self, out: BinaryIO, passphrase: str) -> None:
        out.write(MAGIC + (b"\1" if passphrase else b"\0"))
        self._sealed = SealedWriter(out, passphrase) if passphrase else None
        self._packed = gzip.GzipFile("", "wb", 3, self._sealed or out, mtime=0)
        self._tar = tarfile.TarFile(fileobj=self._packed, mode="w")
        self._entries: list[BackupEntry] = []

    def add(self, place: str, path: str, size: int) -> None:
        """The first `size` bytes of a file. Raises OSError."""
        mode = os.stat(path).st_mode & 0o700
        with open(path, "rb") as source:  # ours, or a copy of ours
            seen = _Counted(source, size)
            self._tar.addfile(_info(place, size, mode), seen)  # type: ignore[arg-type]
        self._entries.append(BackupEntry(place, size, mode, seen.digest.hexdigest()))

    def finish(self, contents: BackupContents) -> BackupContents:
        """The list, and the end."""
        whole = msgspec.structs.replace(contents, entries=tuple(self._entries))
        data = msgspec.json.encode(whole)
        self._tar.addfile(_info(LIST, len(data), 0o600), io.BytesIO(data))
        self._tar.close()
        self._packed.close()
        if self._sealed is not None:
            self._sealed.finish()
        return whole


class _Counted:
    """Reads so many bytes; a file that became shorter is filled up, and said by its digest."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source, self._left = source, size
        self.digest = hashlib.sha256()

    def read(self, most: int) -> bytes:
        data = self._source.read(min(most, self._left))
        data += bytes(min(most, self._left) - len(data))
        self._left -= len(data)
        self.digest.update(data)
        return data


def _info(place: str, size: int, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(place)
    info.size, info.mode = size, mode
    return info


def is_sealed(path: str) -> bool:
    """Whether a passphrase is needed. Raises BadRequest if it is no backup of ours, OSError."""
    with open(path, "rb") as source:
        head = source.read(len(MAGIC) + 1)
    if head[:-1] != MAGIC:
        raise BadRequest(f"{path} is no backup of Palinurus", fix="name a file that `pal backup create` made")
    return head[-1:] == b"\1"


@contextlib.contextmanager
def refuse_damage() -> Iterator[None]:
    """What reading a backup can meet, as BadRequest."""
    try:
        yield
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, msgspec.MsgspecError) as error:
        raise BadRequest(
            f"the backup is damaged: {error}", fix="copy it again from where it was made, or restore an earlier one"
        ) from None


def read_box(path: str, passphrase: str) -> Iterator[tuple[str, BinaryIO]]:
    """(place, its bytes) one after the other, the list last. To be read within `refuse_damage`. Raises BadRequest."""
    with open(path, "rb") as raw:
        raw.seek(len(MAGIC) + 1)
        source: BinaryIO = io.BufferedReader(SealedReader(raw, passphrase)) if passphrase else raw
        packed = gzip.GzipFile(fileobj=source)
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            for info in tar:
                data = tar.extractfile(info) if info.isreg() else None
                if data is None or not _is_inside(info.name):
                    raise BadRequest(f"the backup holds {info.name!r}, which is no file of a home")
                yield info.name, data  # type: ignore[misc]
        while packed.read(_CHUNK):  # to the end, which has the check sum
            pass


def _is_inside(place: str) -> bool:
    parts = place.split("/")
    return bool(place) and not place.startswith("/") and ".." not in parts and "" not in parts
