"""What a session's tools ask of the editor: the text of a file, a file to be written, a command in its terminal.

The gateway has judged the path or the command; whatever the editor cannot do, it does itself (`agent/editors.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import helpers, schema

from palinurus.core.folders import is_inside
from palinurus.core.types.editor import EditorAbility, EditorAction
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

KEPT = 60  # seconds that the end of a command can be asked for
ELSEWHERE = "the path is not in the folder that the editor has open"


def list_abilities(capabilities: Any) -> tuple[EditorAbility, ...]:
    """What an editor says it can do."""
    files = getattr(capabilities, "fs", None)
    said: dict[EditorAbility, Any] = {
        "read": getattr(files, "read_text_file", None),
        "write": getattr(files, "write_text_file", None),
        "terminal": getattr(capabilities, "terminal", None),
    }
    return tuple(name for name, offered in said.items() if offered)


class EditorHands:
    """One editor; `editor()` is its end of the wire."""

    def __init__(self, editor: Callable[[], Any]) -> None:
        self._editor = editor
        self._named: dict[str, asyncio.Task[str]] = {}  # by ticket: the editor's name of a terminal
        self._ends: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self.tasks = TaskSet("terminals of the editor")

    async def answer(self, session: str, folder: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The params of `editor.answer`, for the payload of an `editor.request`."""
        told: dict[str, Any] = {"id": asked["id"], "ok": True}
        try:
            return {**told, "told": await self._do(session, folder, asked["action"], asked.get("params") or {})}
        except Exception as exc:  # border to the editor: the gateway does it itself
            log.debug("the editor did not %s", asked.get("action"), exc_info=True)
            return {**told, "ok": False, "why": f"the editor did not do it ({str(exc)[:120] or type(exc).__name__})"}

    async def fill(self, session: str, folder: str, block: Any) -> Any:
        """A link to a file of the folder becomes its text."""
        parts = urlsplit(str(block.uri)) if block.type == "resource_link" else None
        path = os.path.realpath(unquote(parts.path)) if parts is not None and parts.scheme == "file" else ""
        if not path or not is_inside(path, folder):
            return block
        try:
            text = (await self._editor().read_text_file(session_id=session, path=path)).content
        except Exception:  # noqa: BLE001 - border to the editor: the agent can read what is on disk
            return block
        return helpers.resource_block(helpers.embedded_text_resource(str(block.uri), text))

    async def _do(self, session: str, folder: str, action: EditorAction, params: dict[str, Any]) -> dict[str, Any]:
        if "path" in params and not _lies_in(params["path"], folder):
            raise ValueError(ELSEWHERE)
        editor = self._editor()
        match action:
            case "read":
                return {"text": (await editor.read_text_file(session_id=session, path=params["path"])).content}
            case "write":
                await editor.write_text_file(session_id=session, path=params["path"], content=params["text"])
                return {}
            case "start":
                named = self._named[params["ticket"]] = self.tasks.start(self._start(session, params))
                self._ends[params["ticket"]] = self.tasks.start(self._follow(session, params["ticket"], named))
                return {"terminal": await named}
            case "wait":
                return await asyncio.shield(self._ends[params["ticket"]])
            case "kill":  # be it that the editor has not made the terminal yet
                await editor.kill_terminal(session_id=session, terminal_id=await self._named[params["ticket"]])
                return await asyncio.shield(self._ends[params["ticket"]])

    async def _start(self, session: str, params: dict[str, Any]) -> str:
        made = await self._editor().create_terminal(
            session_id=session,
            command=params["command"],
            args=params["args"],
            cwd=params["cwd"],
            env=[schema.EnvVariable(name=name, value=value) for name, value in params["env"].items()],
            output_byte_limit=params["bytes"],
        )
        return str(made.terminal_id)

    async def _follow(self, session: str, ticket: str, made: asyncio.Task[str]) -> dict[str, Any]:
        editor = self._editor()
        try:
            named = {"session_id": session, "terminal_id": await made}
            end = await editor.wait_for_terminal_exit(**named)
            shown = await editor.terminal_output(**named)
            await editor.release_terminal(**named)
            return {"text": shown.output, "truncated": shown.truncated, "code": end.exit_code, "signal": end.signal}
        finally:
            asyncio.get_running_loop().call_later(KEPT, self._forget, ticket)

    def _forget(self, ticket: str) -> None:
        self._named.pop(ticket, None)
        self._ends.pop(ticket, None)


def show_terminal(call: str, ident: str) -> Any:
    """The update that puts a terminal where its call is shown."""
    return helpers.update_tool_call(call, content=[helpers.tool_terminal_ref(ident)])


def _lies_in(path: str, folder: str) -> bool:
    return bool(folder) and os.path.realpath(path) == path and is_inside(path, folder)
