"""Files that people send: each session has a folder of its own below the state directory, which its tools may read and
no other session's may. What lies there came from outside; reading it taints.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from palinurus.agent.cell import ToolSandbox, make_session_slug
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.tool import ToolSettings

# (message, where its session's files lie, pixels of an image, does the model see?) -> with what its files say
AttachFiles: TypeAlias = Callable[[Inbound, str, int, bool], Awaitable[Inbound]]


def locate_inbound_folder(home: str, key: SessionKey) -> str:
    """Where files sent to a session lie. There is none before the first file."""
    return os.path.join(home, "media", "inbound", make_session_slug(str(key)))


def open_inbound_files(settings: ToolSettings, cell: ToolSandbox, path: str) -> ToolSettings:
    """With the session's files open to its tools, and to commands where the kernel holds those."""
    if not os.path.isdir(path):
        return settings
    shut = cell.cell.kind in ("none", "docker")  # nothing to open, or nothing that could be opened later
    inner = settings.cell if shut else msgspec.structs.replace(settings.cell, read=(*settings.cell.read, path))
    return msgspec.structs.replace(settings, received=(path,), cell=inner)
