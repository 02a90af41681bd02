"""Contents of files, by their hash, in the state directory. The same content is there once.

Written without waiting for the disk: a killed program leaves whole ones, a power cut may take some, and what does not
fit its hash is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection

from palinurus.files import NotPlainFile, read_plain_file, write_whole_file


class BlobStore:
    """One folder of contents. Nothing here raises but OSError of `put`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.written = 0  # bytes since the last sweep

    def put(self, data: bytes) -> str:
        """Keep it; returns its hash. Raises OSError."""
        name = hashlib.blake2b(data, digest_size=20).hexdigest()
        path = self._path(name)
        try:
            if os.stat(path).st_size == len(data):
                return name
        except FileNotFoundError:
            pass
        try:
            write_whole_file(path, data, sync=False)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_whole_file(path, data, sync=False)
        self.written += len(data)
        return name

    def get(self, name: str, size: int) -> bytes | None:
        """The content, whole; None if it is not there any more."""
        try:
            data = read_plain_file(self._path(name), size)
        except (OSError, NotPlainFile):
            return None
        return data if hashlib.blake2b(data, digest_size=20).hexdigest() == name else None

    def sweep(self, keep: Collection[str]) -> int:
        """Remove what is not among these. Returns how many bytes are left."""
        left = 0
        for folder in _list(self._folder):
            for name in _list(os.path.join(self._folder, folder)):
                path = os.path.join(self._folder, folder, name)
                with contextlib.suppress(OSError):
                    if name in keep:
                        left += os.stat(path).st_size
                    else:
                        os.unlink(path)
        self.written = 0
        return left

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name[:2], name)


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
