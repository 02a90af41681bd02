"""Pictures and sounds the agent has in its workspace, for faces that show them; and what the page is told first.

Only files inside a workspace, of kinds a browser shows without running anything, for callers that may read.
"""

from __future__ import annotations

import os
import stat

from aiohttp import web

from palinurus import __version__
from palinurus.config.settings import Settings
from palinurus.gateway import reply
from palinurus.gateway.fault import HttpFault

MEDIA_BYTES = 32 * 1024 * 1024
MEDIA_TYPES: dict[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
MEDIA_POLICY = "default-src 'none'; sandbox"
_NONE = HttpFault(404, "there is no such file, or it is none that is shown", "not_found", code="not_found")


def make_page_config(settings: Settings) -> web.Response:
    """control-ui-config.json: what a page needs before it connects."""
    agent = settings.agents[settings.default_agent]
    return reply.reply_json(
        {
            "basePath": "",
            "assistantName": agent.name or settings.default_agent,
            "assistantAvatar": None,
            "assistantAvatarSource": None,
            "assistantAvatarStatus": "none",
            "assistantAvatarReason": "missing",
            "assistantAgentId": settings.default_agent,
            "serverVersion": __version__,
            "localMediaPreviewRoots": [a.workspace for a in settings.agents.values()],
            "embedSandbox": "strict",
            "allowExternalEmbedUrls": False,
        }
    )


def describe_avatar(request: web.BaseRequest, agent: str, settings: Settings) -> web.Response | HttpFault:
    """/avatar/<agent>: there are none yet, and the page asks first whether there is one."""
    if agent not in settings.agents or request.query.get("meta") != "1":
        return _NONE
    return reply.reply_json(
        {"avatarUrl": None, "avatarSource": None, "avatarStatus": "none", "avatarReason": "missing"}
    )


def serve_workspace_media(request: web.BaseRequest, settings: Settings) -> web.Response | HttpFault:
    """A file of a workspace (`source`, absolute or relative to the default agent's); with meta=1 whether there is."""
    source = request.query.get("source", "").removeprefix("file://")
    found = _open(source, settings)
    if request.query.get("meta") == "1":
        return reply.reply_json(
            {"available": found is not None, **({} if found else {"reason": "not found or not shown"})}
        )
    if found is None:
        return _NONE
    data, kind = found
    return reply.reply_bytes(data, kind, Content_Security_Policy=MEDIA_POLICY, Content_Disposition="inline")


def _open(source: str, settings: Settings) -> tuple[bytes, str] | None:
    """The bytes, if the file is what `MOST`, `KINDS` and the workspaces allow. Links are followed before judging."""
    kind = MEDIA_TYPES.get(os.path.splitext(source)[1].lower())
    if kind is None or "\0" in source or len(source) > 4096:
        return None
    path = os.path.realpath(os.path.join(settings.agents[settings.default_agent].workspace, source))
    roots = [os.path.realpath(agent.workspace) for agent in settings.agents.values()]
    if not any(path.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        return None
    if os.path.splitext(path)[1].lower() not in MEDIA_TYPES:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MEDIA_BYTES:
            return None
        return opened.read(MEDIA_BYTES), kind
