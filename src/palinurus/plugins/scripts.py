"""Hook scripts: `hooks/NAME/HOOK.md` with a `handler.py`, or `hooks/NAME.py`. No manifest, no `register`.

They lie in <home>/hooks, in hooks.internal.load.extraDirs, or in an agent's workspace. The agent itself can write to
its workspace, so what lies there runs only if the config holds its SHA-256, and it is those very bytes that run.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from palinurus.beneath import open_file_beneath, read_file_beneath
from palinurus.config.settings import Settings
from palinurus.core.skills.frontmatter import FrontMatter, parse_front_matter
from palinurus.patterns import compile_late
from palinurus.plugins.api import HookRegistration
from palinurus.plugins.function import make_async_handler
from palinurus.plugins.load import load_module_code, load_module_file

log = logging.getLogger(__name__)

FILE = "HOOK.md"
LARGEST = 1 << 20  # bytes of a script
# event -> the point it is told at, and what the payload must say for it
EVENTS: dict[str, tuple[str, dict[str, str]]] = {
    "agent:bootstrap": ("agent:bootstrap", {}),
    "command": ("command", {}),
    "command:new": ("command", {"name": "new"}),
    "command:reset": ("command", {"name": "reset"}),
    "command:stop": ("command", {"name": "stop"}),
    "gateway:startup": ("gateway_start", {}),
    "message:received": ("message_received", {}),
    "message:sent": ("message_sent", {}),
    "session:compact:before": ("before_compaction", {}),
    "session:compact:after": ("after_compaction", {}),
}
_NAME = compile_late(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class HookScript(msgspec.Struct, frozen=True):
    """A script that was found. `reason`: why it is not used; "" if it is."""

    name: str
    path: str  # the Python file
    events: tuple[str, ...] = ()
    reason: str = ""
    code: bytes = b""  # of one in a workspace: what was judged and runs, whatever the file holds by then


def find_scripts(settings: Settings) -> list[HookScript]:
    """All scripts, of one name the first. HOOK.md files are read; nothing is imported."""
    made: dict[str, HookScript] = {}
    for folder, own in _places(settings):
        for script in _in(folder):
            enabled = settings.scripts.entries.get(script.name)
            if not settings.scripts.on:
                script = msgspec.structs.replace(script, reason="hooks.internal.enabled is false")
            elif enabled is False:
                script = msgspec.structs.replace(
                    script, reason=f"hooks.internal.entries.{script.name}.enabled is false"
                )
            elif not own and not script.reason:
                script = _judge_pin(script, folder, settings.scripts.pins.get(script.name, ""))
            made.setdefault(script.name, script)
    return list(made.values())


def _judge_pin(script: HookScript, folder: str, pin: str) -> HookScript:
    """A script of a workspace with the bytes that were judged; with a reason if they are not what the owner read."""
    workspace = os.path.dirname(folder)
    try:
        code = read_file_beneath(workspace, os.path.relpath(script.path, workspace), LARGEST)
    except OSError as exc:
        return msgspec.structs.replace(script, reason=f"it cannot be read: {exc}")
    found = hashlib.sha256(code).hexdigest()
    if found == pin:
        return msgspec.structs.replace(script, code=code)
    why = "it is not what the config says" if pin else "it lies in a workspace, where the agent can write"
    key = f"hooks.internal.entries.{script.name}.sha256"
    return msgspec.structs.replace(script, reason=f"{why}: read it, then set {key} to {found}")


def load_scripts(settings: Settings) -> tuple[list[HookRegistration], list[HookScript]]:
    """The handlers of all scripts in use, and the scripts that are set aside. Never raises."""
    made: list[HookRegistration] = []
    aside: list[HookScript] = []
    for script in find_scripts(settings) if settings.scripts.on else ():
        if script.reason:
            aside.append(script)
            continue
        try:
            loaded = _loaded(script)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - border: a script's failure is its own
            log.warning("hook script %s is set aside: %s", script.path, exc)
            aside.append(msgspec.structs.replace(script, reason=f"{type(exc).__name__}: {exc}"))
            continue
        made += loaded
    return made, aside


def _places(settings: Settings) -> Iterator[tuple[str, bool]]:
    """(folder, does only the owner write there?)"""
    yield os.path.join(settings.home, "hooks"), True
    for folder in settings.scripts.folders:
        yield folder, True
    for agent in settings.agents.values():
        yield os.path.join(agent.workspace, "hooks"), False


def _in(folder: str) -> Iterator[HookScript]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        stem = name.removesuffix(".py")
        if not _NAME.fullmatch(stem):
            continue
        if name.endswith(".py") and os.path.isfile(path):
            yield HookScript(stem, path)
        elif os.path.isfile(os.path.join(path, FILE)):
            yield _described(stem, path)


def _described(name: str, folder: str) -> HookScript:
    file = os.path.join(folder, "handler.py")
    try:
        with open_file_beneath(os.path.dirname(folder), f"{os.path.basename(folder)}/{FILE}") as handle:
            head = parse_front_matter(handle.read(200_000).decode())
    except (OSError, ValueError) as exc:
        return HookScript(name, file, (), f"{FILE} cannot be read: {exc}")
    if not isinstance(head, FrontMatter):
        return HookScript(name, file, (), f"{FILE}:{head.line}: {head.message}")
    events = _events(head.fields)
    unknown = [event for event in events if event not in EVENTS]
    reason = "" if os.path.isfile(file) else "there is no handler.py beside it"
    if unknown or not events:
        reason = f"{FILE} names no event that exists ({', '.join(unknown) or 'none'}); there are {', '.join(EVENTS)}"
    return HookScript(str(head.fields.get("name") or name), file, events, reason)


def _events(fields: dict[str, Any]) -> tuple[str, ...]:
    """From `metadata.openclaw.events`, `metadata.palinurus.events` or `events`."""
    metadata = fields.get("metadata")
    parts = [metadata.get(name) for name in ("openclaw", "palinurus")] if isinstance(metadata, dict) else []
    for part in (*parts, fields):
        events = part.get("events") if isinstance(part, dict) else None
        if isinstance(events, list):
            return tuple(str(event) for event in events)
    return ()


def _loaded(script: HookScript) -> list[HookRegistration]:
    name = "palinurus_hook_" + re.sub(r"\W", "_", script.name)
    module = load_module_code(script.code, name, script.path) if script.code else load_module_file(script.path, name)
    handler = getattr(module, "handler", None)
    if not callable(handler):
        raise TypeError("it has no function `handler(event)`")
    events = script.events or tuple(getattr(module, "EVENTS", ()))
    unknown = [event for event in events if event not in EVENTS]
    if unknown or not events:
        raise TypeError(f"EVENTS names {', '.join(unknown) or 'nothing'}; there are {', '.join(EVENTS)}")
    return [_hook(script.name, event, handler) for event in events]


def _hook(name: str, event: str, handler: Callable[[dict[str, Any]], Any]) -> HookRegistration:
    point, wanted = EVENTS[event]
    inner = make_async_handler(point, handler)
    kind, _, action = event.partition(":")

    async def call(payload: dict[str, Any]) -> dict[str, Any] | None:
        if any(payload.get(field) != value for field, value in wanted.items()):
            return None
        context = copy.deepcopy(payload)
        told = {
            "type": kind,
            "action": action or payload.get("name", ""),
            "sessionKey": payload.get("sessionKey", ""),
            "context": context,
        }
        result = inner(told)
        if inspect.isawaitable(result):
            await result
        files = context.get("bootstrapFiles")
        return {"bootstrapFiles": files} if files != payload.get("bootstrapFiles") else None

    return HookRegistration(point, call, owner=f"hooks/{name}")
