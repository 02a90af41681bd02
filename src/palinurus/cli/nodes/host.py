"""What this machine does when a gateway asks: a table of commands. Programs run in the sandbox that holds this home's
own commands; devices are programs that the owner named in `nodeHost.devices`, and are offered only where they are.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from palinurus.agent.plan.sandbox import ToolSandboxes
from palinurus.config.settings import Settings
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.node import CONTAINED, NOTIFY, RUN, WHICH, NodeSurface
from palinurus.core.types.sandbox import SandboxSpec, needs_approval
from palinurus.core.untrusted import clean_label
from palinurus.tools.commands.child import ChildSpec, run_child
from palinurus.tools.commands.environ import build_child_env, explain_refused_variable
from palinurus.tools.commands.output import OutputBuffer

LIMIT = 1800.0  # seconds a command may take
DEVICE_LIMIT = 60.0
MAX_PICTURE = 16 << 20  # bytes
# device -> the command it answers, and the capability that goes with it
DEVICES = {
    "camera": ("camera.snap", "camera"),
    "screen": ("screen.snapshot", "screen"),
    "recorder": ("screen.record", "screen"),
    "location": ("location.get", "location"),
}


class NodeRefusal(Exception):
    """Why a command was not done, in the protocol's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NodeHost:
    """`answer` does one command. Cancelling it ends what it started."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], show: Callable[[str], None]) -> None:
        """Raises OSError if the folders of the sandbox cannot be made."""
        self._settings = settings
        self._environ = environ
        self._show = show
        base = build_child_env(environ, {})
        agent = settings.agents[settings.default_agent]
        key = parse_session_key("main", agent.id)
        assert key is not None
        os.makedirs(agent.workspace, mode=0o700, exist_ok=True)
        self._box = ToolSandboxes(settings, base).of(agent, key)
        self._env = {**base, **self._box.env}
        self._devices = settings.node_host.devices
        self._table: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            RUN: self._run,
            WHICH: self._which,
            NOTIFY: self._notify,
            **({"camera.list": self._list_cameras} if "camera" in self._devices else {}),
        }

    @property
    def contained(self) -> bool:
        """Does a sandbox hold what runs here?"""
        return self._box.cell.kind != "none"

    @property
    def surface(self) -> NodeSurface:
        """What is offered."""
        found = [DEVICES[name] for name in DEVICES if name in self._devices]
        commands = dict.fromkeys((*self._table, *(command for command, _ in found)))
        caps = dict.fromkeys(("system", *(cap for _, cap in found)))
        return NodeSurface(tuple(caps), tuple(commands), {CONTAINED: self.contained})

    async def answer(self, command: str, params: dict[str, Any]) -> Any:
        """The payload. Raises NodeRefusal."""
        if command in self._table:
            return await self._table[command](params)
        device = next((name for name, (what, _) in DEVICES.items() if what == command), "")
        if device not in self._devices:
            raise NodeRefusal("UNAVAILABLE", "command not supported")
        return await self._use_device(device, params)

    async def _run(self, params: dict[str, Any]) -> dict[str, Any]:
        argv, env = params.get("command"), params.get("env") or {}
        if (
            not isinstance(argv, list)
            or not argv
            or not all(isinstance(word, str) and "\x00" not in word for word in argv)
        ):
            raise NodeRefusal("INVALID_REQUEST", "command required")
        if needs_approval(self._box.cell) and params.get("approved") is not True:
            raise NodeRefusal("UNAVAILABLE", "SYSTEM_RUN_DENIED: approval required (nothing contains commands here)")
        for name, value in env.items() if isinstance(env, dict) else ():
            if why := explain_refused_variable(str(name), str(value)):
                raise NodeRefusal("INVALID_REQUEST", f"SYSTEM_RUN_DENIED: {why}")
        cwd = os.path.join(self._box.workspace, os.path.expanduser(str(params.get("cwd") or "")))
        if not os.path.isdir(cwd):
            raise NodeRefusal("INVALID_REQUEST", "SYSTEM_RUN_DENIED: cwd is no directory")
        limit = min(float(params.get("timeoutMs") or LIMIT * 1000) / 1000, LIMIT)
        declared = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
        kept = OutputBuffer()
        spec = ChildSpec(tuple(argv), cwd, {**self._env, **declared}, cell=self._box.cell)
        try:
            done = await run_child(spec, kept.feed, limit)
        except OSError as exc:
            raise NodeRefusal("UNAVAILABLE", f"could not be started: {exc.strerror or exc}") from None
        good = done.code == 0 and not done.timed_out
        told = {"exitCode": done.code, "timedOut": done.timed_out, "success": good, "cwd": cwd}
        return {**told, "stdout": kept.text(), "stderr": "", "error": None}  # both streams, in the order they came

    async def _which(self, params: dict[str, Any]) -> dict[str, Any]:
        bins = params.get("bins")
        if not isinstance(bins, list):
            raise NodeRefusal("INVALID_REQUEST", "bins required")
        names = [name for name in bins[:100] if isinstance(name, str) and name and "/" not in name]
        found = {name: shutil.which(name, path=self._env["PATH"]) for name in names}
        return {"bins": {name: path for name, path in found.items() if path}}

    async def _notify(self, params: dict[str, Any]) -> dict[str, Any]:
        title, body = (clean_label(str(params.get(name) or ""), 400) for name in ("title", "body"))
        if not (title or body):
            raise NodeRefusal("INVALID_REQUEST", "title or body required")
        program = self._settings.node_host.notify or self._find_notifier()
        if not program:
            self._show(f"notice: {title}{': ' if title and body else ''}{body}")
            return {"shown": "terminal"}
        code, _ = await self._call((*program, title or body, body if title else ""), 10.0)
        if code:
            raise NodeRefusal("UNAVAILABLE", f"{os.path.basename(program[0])} failed ({code})")
        return {"shown": os.path.basename(program[0])}

    def _find_notifier(self) -> tuple[str, ...]:
        """Only where there is a desktop to show it on."""
        seat = self._environ.get("DISPLAY") or self._environ.get("WAYLAND_DISPLAY")
        path = shutil.which("notify-send") if seat and sys.platform == "linux" else None
        return (path, "--") if path else ()

    async def _list_cameras(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"devices": [{"id": "camera", "name": os.path.basename(self._devices["camera"][0])}]}

    async def _use_device(self, device: str, params: dict[str, Any]) -> Any:
        """What the device's program prints. Parameters reach it as one JSON text, the last argument."""
        shown = msgspec.json.encode({name: params[name] for name in sorted(params) if name != "approved"}).decode()
        code, data = await self._call((*self._devices[device], shown), DEVICE_LIMIT)
        if code or not data or len(data) > MAX_PICTURE:
            raise NodeRefusal("UNAVAILABLE", f"the {device} handed over nothing ({code})")
        if device == "location":
            try:
                return msgspec.json.decode(data, type=dict[str, Any])
            except msgspec.DecodeError:
                raise NodeRefusal("UNAVAILABLE", "the location is no JSON object") from None
        kind = "mp4" if device == "recorder" else "png" if data.startswith(b"\x89PNG") else "jpg"
        return {"format": kind, "base64": base64.b64encode(data).decode()}

    async def _call(self, argv: tuple[str, ...], limit: float) -> tuple[int, bytes]:
        """A program of the owner's: not contained, since a camera is not, and with the environment of commands."""
        found = bytearray()
        seat = {n: v for n in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR") if (v := self._environ.get(n))}
        seat |= {n: v for n in ("DBUS_SESSION_BUS_ADDRESS",) if (v := self._environ.get(n))}
        env = {**build_child_env(self._environ, {}), **seat}

        def feed(data: bytes) -> None:
            if len(found) <= MAX_PICTURE:
                found.extend(data)

        try:
            done = await run_child(ChildSpec(argv, "/", env, cell=SandboxSpec()), feed, limit)
        except OSError as exc:
            raise NodeRefusal("UNAVAILABLE", f"{argv[0]} could not be started: {exc.strerror or exc}") from None
        return (124 if done.timed_out else done.code), bytes(found)


class RunningCommands:
    """Commands that are being answered, by the gateway's id: each can be ended."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def start(self, ident: str, work: Awaitable[Any]) -> None:
        """Do it beside everything else. The same id twice is one command: it is never done again."""
        task = asyncio.ensure_future(work)
        self._tasks[ident] = task
        task.add_done_callback(lambda _: self._tasks.pop(ident, None))

    def has(self, ident: str) -> bool:
        return ident in self._tasks

    def cancel(self, ident: str) -> None:
        """End one."""
        if ident in self._tasks:
            self._tasks[ident].cancel()

    async def close(self) -> None:
        """End all of them."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
