"""Files that a sub-agent is given: put into its workspace, taken away with it.

The workspace belongs to agents, so nothing in it is trusted: no link is followed, nothing existing is overwritten.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
from collections.abc import Sequence

from palinurus.tools.spawn import SubagentAttachment

FOLDER = ".attachments"
MOST = 5_000_000  # bytes altogether
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def read_attachments(attachments: Sequence[SubagentAttachment]) -> dict[str, bytes] | str:
    """By name; or what is wrong with them."""
    found: dict[str, bytes] = {}
    for one in attachments:
        name = one.name.strip()
        if not name or name in (".", "..") or len(name.encode(errors="replace")) > 200 or set(name) & set("/\\\0"):
            return f"attachments: {name[:60]!r} cannot be a file name"
        if name in found:
            return f"attachments: {name[:60]!r} is there twice"
        try:
            base = one.encoding == "base64"
            found[name] = base64.b64decode(one.content, validate=True) if base else one.content.encode()
        except (binascii.Error, ValueError) as exc:
            return f"attachments: {name[:60]!r} cannot be read: {exc}"
    size = sum(map(len, found.values()))
    return f"attachments: {size:,} bytes are more than {MOST:,}" if size > MOST else found


def write_attachments(workspace: str, ident: str, files: dict[str, bytes]) -> str:
    """Puts them there and returns the folder. Raises OSError."""
    os.makedirs(os.path.join(workspace, FOLDER), mode=0o700, exist_ok=True)
    base = os.open(os.path.join(workspace, FOLDER), _DIR)
    try:
        os.mkdir(ident, 0o700, dir_fd=base)
        folder = os.open(ident, _DIR, dir_fd=base)
    finally:
        os.close(base)
    try:
        for name, data in files.items():
            with open(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as handle:
                handle.write(data)
    finally:
        os.close(folder)
    return os.path.join(workspace, FOLDER, ident)


def remove_attachments(folder: str) -> None:
    """Takes them away, if they are still where they were put."""
    if folder and not os.path.islink(os.path.dirname(folder)):
        shutil.rmtree(folder, ignore_errors=True)
