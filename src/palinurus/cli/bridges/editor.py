"""The Agent Client Protocol on one side, our gateway's protocol on the other. Besides `acpshow.py` the only file that
knows `acp`.

A session of the editor is a session of the gateway, which works in the folder that the editor has open, once the owner
allowed that; a prompt is a message, and what its run shows is passed on: text, thoughts, tool calls with diffs and
places, plans, and questions to people as the editor's permission requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from typing import Any, Protocol

import acp
from acp import helpers, schema

from palinurus import __version__
from palinurus.cli.bridges import acpshow
from palinurus.cli.bridges.hands import EditorHands, list_abilities, show_terminal
from palinurus.core.types.editor import EditorAbility
from palinurus.core.types.keys import SessionKey
from palinurus.errors import GatewayUnreachable
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.rpc import MethodError
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

STOPS = {"length": "max_tokens", "max_turns": "max_turn_requests", "aborted": "cancelled", "refused": "refusal"}
UNKNOWN = -32002  # the protocol's "resource not found"
FAILED = -32000


class FolderLeaves(Protocol):
    """What the owner of this machine allows."""

    def explain(self, folder: str) -> str:
        """Why no session may work there; "" if one may."""
        ...

    def can_allow(self, folder: str) -> bool: ...

    def allow(self, folder: str) -> None: ...


class _Turn:
    """One prompt that is being answered."""

    def __init__(self, session: str, key: str) -> None:
        self.session = session
        self.key = key
        self.spoken = ""
        self.diffs: dict[str, list[Any]] = {}  # of its calls
        self.terminals: dict[str, str] = {}  # in which they run
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class AcpBridge:
    """Implements `acp.Agent`."""

    def __init__(self, link: GatewayLink, target: SessionKey, fixed: bool, leaves: FolderLeaves | None = None) -> None:
        """`fixed`: `target` is the session of all; `leaves`: where the gateway is on this machine."""
        self._link = link
        self._target = target
        self._fixed = fixed
        self._leaves = leaves
        self._editor: Any = None
        self._abilities: tuple[EditorAbility, ...] = ()  # what the editor does for us
        self._hands = EditorHands(lambda: self._editor)
        self._keys: dict[str, str] = {}  # the editor's session -> ours
        self._folders: dict[str, str] = {}  # … -> where it works
        self._places: dict[str, str] = {}  # … -> where the editor is open, until that is settled
        self._turns: dict[str, _Turn] = {}  # by run id
        self._tasks = TaskSet("what the editor is asked and told")

    def close(self) -> None:
        """The editor is gone: what it was asked for has no answer."""
        self._tasks.cancel()
        self._hands.tasks.cancel()

    def on_connect(self, conn: Any) -> None:
        """The editor's end."""
        self._editor = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        """What we can do."""
        self._abilities = list_abilities(client_capabilities)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            agent_info=schema.Implementation(name="palinurus", title="Palinurus", version=__version__),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """A session of its own, unless one was named on the command line."""
        ident = str(uuid.uuid4())
        self._keys[ident] = str(self._target) if self._fixed else self._make_key(ident)
        self._places[ident] = cwd
        folder = self._find_folder(cwd)
        place = {"folder": folder} if folder and self._leaves and not self._leaves.explain(folder) else {}
        row = (await self._call("sessions.create", {"key": self._keys[ident], **place}))["entry"]
        if place:
            self._settle(ident, folder)
        if not self._fixed:
            await self._call("sessions.patch", {"key": self._keys[ident], "reasoningLevel": "stream"})
        options = await self._describe(ident, row)
        return schema.NewSessionResponse(session_id=ident, modes=acpshow.make_modes(row), config_options=options)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Go on with a session: what was said is shown again."""
        row = await self._find(session_id)
        told = (await self._call("chat.history", {"sessionKey": row["key"], "limit": 200})).get("messages", ())
        if not told and not row.get("folder"):  # made by another bridge, and not begun: where it works is not settled
            self._places[session_id] = cwd
        for message in told:
            text = acpshow.read_text(message)
            if text and message.get("role") == "user":
                await self._show(session_id, helpers.update_user_message_text(text))
            elif text and message.get("role") == "assistant":
                await self._show(session_id, helpers.update_agent_message_text(text))
        options = await self._describe(session_id, row)
        return schema.LoadSessionResponse(modes=acpshow.make_modes(row), config_options=options)

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        """The agent's sessions, newest first; with `cwd` those that work there."""
        told = await self._call("sessions.list", {"limit": 50, "includeDerivedTitles": True})
        rows = [
            acpshow.make_session_info(self._name(str(row["key"])), row)
            for row in told.get("sessions", ())
            if cwd is None or row.get("folder") == os.path.realpath(cwd)
        ]
        return schema.ListSessionsResponse(sessions=rows)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """How much the session may do unasked from now on."""
        await self._find(session_id)
        await self._call("sessions.patch", {"key": self._keys[session_id], "permissionMode": mode_id})
        await self._show(session_id, helpers.update_current_mode(mode_id))
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Another model, or another level of thinking."""
        fields = {acpshow.MODEL: "model", acpshow.THINKING: "thinkingLevel"}
        if config_id not in fields:
            raise acp.RequestError(-32602, f"there is no option {config_id!r}")
        await self._find(session_id)
        await self._call("sessions.patch", {"key": self._keys[session_id], fields[config_id]: value})
        row = await self._find(session_id)
        known = await self._call("chat.metadata", {})
        return schema.SetSessionConfigOptionResponse(config_options=acpshow.make_options(row, known["models"]))

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """One message and all its run shows; returns when the outcome is known, fails if that is a failure."""
        await self._find(session_id)
        place = await self._place(session_id)
        await self._offer(session_id)
        run = str(uuid.uuid4())
        turn = self._turns[run] = _Turn(session_id, self._keys[session_id])
        text, pictures = acpshow.read_prompt(await self._fill(session_id, prompt))
        if place and not text.startswith("/"):
            text = f"[The editor is open in {place}]\n{text}"
        try:
            params = {"sessionKey": turn.key, "message": text, "idempotencyKey": run, "deliver": False}
            await self._call("chat.send", {**params, **({"attachments": pictures} if pictures else {})})
            return schema.PromptResponse(stop_reason=await turn.end)  # type: ignore[arg-type]
        finally:
            self._turns.pop(run, None)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what runs in this session."""
        if session_id in self._keys:
            await self._call("chat.abort", {"sessionKey": self._keys[session_id]})

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """There is nothing to do: the gateway's credential is this machine's."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """None are known."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """None are known."""

    # --- sessions and folders --------------------------------------------------------------------------------

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        try:
            return await self._link.call(method, params)
        except MethodError as exc:
            raise acp.RequestError(FAILED, exc.message) from None

    async def _find(self, session: str) -> dict[str, Any]:
        """The row of a session that is there; after a restart of this bridge the editor may name one made before.
        Raises RequestError."""
        key = self._keys.get(session) or (session if session.startswith("agent:") else self._make_key(session))
        row = (await self._call("sessions.describe", {"key": key})).get("session")
        if row is None:
            raise acp.RequestError(UNKNOWN, f"there is no session {session[:80]!r}")
        self._keys[session] = key
        self._folders[session] = str(row.get("folder") or "")
        return dict(row)

    def _make_key(self, ident: str) -> str:
        return f"agent:{self._target.agent}:acp:{ident}"

    def _name(self, key: str) -> str:
        """The editor's name for a session: the same from new, list and load."""
        return next((name for name, one in self._keys.items() if one == key), key.removeprefix(self._make_key("")))

    def _find_folder(self, cwd: str) -> str:
        folder = os.path.realpath(cwd) if os.path.isabs(cwd) else ""
        return folder if folder and self._leaves is not None and not self._fixed else ""

    def _settle(self, session: str, folder: str) -> None:
        self._folders[session] = folder
        self._places.pop(session, None)

    async def _place(self, session: str) -> str:
        """Before a session's first prompt: have it work where the editor is open, if that may be. What is to be told to
        the agent if it works elsewhere."""
        cwd = self._places.pop(session, "")
        folder = self._find_folder(cwd) if cwd else ""
        if not folder or self._leaves is None or not self._leaves.can_allow(folder):
            return cwd
        if self._leaves.explain(folder):
            if not await self._ask_leave(session, folder):
                return cwd
            self._leaves.allow(folder)
        await self._call("sessions.create", {"key": self._keys[session], "folder": folder})
        self._settle(session, folder)
        return ""

    async def _ask_leave(self, session: str, folder: str) -> bool:
        names = (f"Work in {folder}", "Stay in the agent's own workspace")
        options = acpshow.make_choices(("allow-always", "deny"), *names)
        title = f"Let the agent read and change files and run commands in {folder} (in its sandbox)?"
        return await self._choose(session, f"folder:{session}", title, options) == "allow-always"

    async def _describe(self, session: str, row: dict[str, Any]) -> list[Any]:
        """What can be chosen in a session; its commands are told once the editor knows the session."""
        known = await self._call("chat.metadata", {"agentId": self._target.agent})
        self._tasks.start(self._show_later(session, acpshow.make_commands(known["commands"])))
        return acpshow.make_options(row, known["models"])

    async def _show_later(self, session: str, update: Any) -> None:
        await asyncio.sleep(0)  # the answer that names the session goes first
        await self._show(session, update)

    async def _fill(self, session: str, prompt: list[Any]) -> list[Any]:
        """A prompt with the files that it only names, as the editor has them: perhaps not saved yet."""
        folder = self._folders.get(session, "")
        if "read" not in self._abilities or not folder:
            return prompt
        return [await self._hands.fill(session, folder, block) for block in prompt]

    async def _offer(self, session: str) -> None:
        """Lend the editor's hands to a session that works in the folder it has open."""
        if self._abilities and self._leaves is not None and self._folders.get(session):
            await self._call("editor.offer", {"sessionKey": self._keys[session], "abilities": self._abilities})

    async def _lend(self, asked: dict[str, Any]) -> None:
        """Do what a tool asks of the editor, and say what came of it."""
        session = self._name(str(asked["sessionKey"]))
        told = await self._hands.answer(session, self._folders.get(session, ""), asked)
        if ident := told.get("told", {}).get("terminal"):
            call = str(asked["params"]["call"])
            for turn in self._turns.values():
                turn.terminals |= {call: str(ident)} if turn.session == session else {}
            await self._show(session, show_terminal(call, str(ident)))
        with contextlib.suppress(GatewayUnreachable, MethodError):  # nobody waits there any more
            await self._link.call("editor.answer", told)

    # --- what runs show --------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Pass on what the gateway tells, until it hangs up."""
        while True:
            frame = await self._link.events.get()
            try:
                await self._heard(frame["event"], frame.get("payload") or {})
            except Exception:  # border to two protocols: one frame that is not understood must not end the session
                log.exception("event %s was not passed on", frame.get("event"))

    async def _heard(self, event: str, payload: dict[str, Any]) -> None:
        if event == "editor.request":
            self._tasks.start(self._lend(payload))
            return
        if event in ("exec.approval.requested", "plugin.approval.requested"):
            self._ask(event.partition(".")[0], payload)
            return
        turn = self._turns.get(str(payload.get("runId")))
        if turn is None:
            return
        if event == "agent":
            await self._shown(turn, str(payload.get("stream")), payload.get("data") or {})
        elif event == "chat" and payload.get("state") in ("final", "aborted", "error"):
            await self._ended(turn, payload)

    async def _shown(self, turn: _Turn, stream: str, data: dict[str, Any]) -> None:
        if stream == "assistant" and data.get("delta"):
            turn.spoken += data["delta"]
            await self._show(turn.session, helpers.update_agent_message_text(data["delta"]))
        elif stream == "thinking" and data.get("delta"):
            await self._show(turn.session, helpers.update_agent_thought_text(data["delta"]))
        elif stream == "tool":
            await self._tool(turn, data)

    async def _tool(self, turn: _Turn, data: dict[str, Any]) -> None:
        if data["phase"] == "start":
            if data["name"] == "update_plan" and (plan := acpshow.make_plan(data.get("args"))) is not None:
                await self._show(turn.session, plan)
            update = acpshow.make_tool_start(data, self._folders.get(turn.session, ""))
            turn.diffs[update.tool_call_id] = update.content or []
            await self._show(turn.session, update)
        elif data["phase"] == "result":
            call = str(data["toolCallId"])
            diffs, terminal = turn.diffs.pop(call, []), turn.terminals.pop(call, "")
            await self._show(turn.session, acpshow.make_tool_end(data, diffs, terminal))

    async def _ended(self, turn: _Turn, payload: dict[str, Any]) -> None:
        """Words that were not streamed (a command's answer) are said now; then the prompt is answered."""
        state, text = payload["state"], acpshow.read_text(payload.get("message") or {})
        if text and not turn.spoken and state != "error":
            await self._show(turn.session, helpers.update_agent_message_text(text))
        if turn.end.done():
            return
        if state == "error":
            turn.end.set_exception(acp.RequestError(FAILED, str(payload.get("errorMessage") or "the run failed")))
            return
        reason = "cancelled" if state == "aborted" else STOPS.get(str(payload.get("stopReason")), "end_turn")
        turn.end.set_result(reason)

    def _ask(self, family: str, payload: dict[str, Any]) -> None:
        request = payload.get("request") or {}
        turn = next((t for t in self._turns.values() if t.key == request.get("sessionKey")), None)
        if turn is None:
            return  # a question of another face's run
        self._tasks.start(self._permit(family, turn.session, str(payload["id"]), request))

    async def _permit(self, family: str, session: str, ident: str, request: dict[str, Any]) -> None:
        """Have the editor ask, and hand the answer on."""
        options = acpshow.make_choices(request.get("allowedDecisions") or acpshow.DECISIONS)
        title = str(request.get("command") or request.get("title") or "a question")
        decision = await self._choose(session, str(request.get("toolCallId") or ident), title, options)
        try:
            await self._link.call(f"{family}.approval.resolve", {"id": ident, "decision": decision})
        except MethodError as exc:
            log.warning("the answer came too late: %s", exc.message)

    async def _choose(self, session: str, call: str, title: str, options: list[Any]) -> str:
        """What the person at the editor chose. An editor that cannot ask, or goes away, has said no."""
        about = schema.ToolCallUpdate(tool_call_id=call, title=title, kind="execute", status="pending")
        try:
            answer = await self._editor.request_permission(session_id=session, tool_call=about, options=options)
            if answer.outcome.outcome == "selected" and answer.outcome.option_id in acpshow.DECISIONS:
                return str(answer.outcome.option_id)
        except Exception:  # border to the editor: whatever went wrong there, nobody said yes
            log.warning("the editor could not be asked", exc_info=log.isEnabledFor(logging.DEBUG))
        return "deny"

    async def _show(self, session: str, update: Any) -> None:
        await self._editor.session_update(session_id=session, update=update)


async def serve_acp(
    link: GatewayLink,
    target: SessionKey,
    fixed: bool,
    streams: tuple[Any, Any] | None = None,
    *,
    leaves: FolderLeaves | None = None,
) -> None:
    """Until the editor closes its end; then the link is closed too. `streams`: other than stdio."""
    bridge = AcpBridge(link, target, fixed, leaves)
    passing = asyncio.get_running_loop().create_task(bridge.listen())
    try:
        writing, reading = streams or (None, None)
        await acp.run_agent(bridge, writing, reading)  # type: ignore[arg-type]
    finally:
        passing.cancel()
        bridge.close()
        await link.close()
