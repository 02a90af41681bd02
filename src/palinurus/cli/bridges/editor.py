"""The Agent Client Protocol on one side, our gateway's protocol on the other. The only file that knows `acp`.

A session of the editor is a session of the gateway; a prompt is a message, and what its run shows is passed on:
text, reasoning, tool calls, and questions to people as the editor's permission requests.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

import acp
from acp import helpers, schema

from palinurus import __version__
from palinurus.core.types.keys import SessionKey
from palinurus.gateway.client import GatewayLink
from palinurus.gateway.rpc import MethodError
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

KINDS = {  # what a tool does, in the editor's words
    **dict.fromkeys(("read", "ls", "image", "pdf"), "read"),
    **dict.fromkeys(("write", "edit", "apply_patch"), "edit"),
    **dict.fromkeys(("exec", "process"), "execute"),
    **dict.fromkeys(("grep", "find", "memory_search", "web_search"), "search"),
    "web_fetch": "fetch",
}
DECISIONS = {
    "allow-once": ("allow_once", "Allow once"),
    "allow-always": ("allow_always", "Always allow"),
    "deny": ("reject_once", "Deny"),
}
STOPS = {"length": "max_tokens", "max_turns": "max_turn_requests", "aborted": "cancelled", "refused": "refusal"}


class _Turn:
    """One prompt that is being answered."""

    def __init__(self, session: str, key: str) -> None:
        self.session = session
        self.key = key
        self.spoken = ""
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class AcpBridge:
    """Implements `acp.Agent`."""

    def __init__(self, link: GatewayLink, target: SessionKey, fixed: bool) -> None:
        self._link = link
        self._target = target
        self._fixed = fixed
        self._editor: Any = None
        self._keys: dict[str, str] = {}  # the editor's session -> ours
        self._places: dict[str, str] = {}  # … -> where the editor is open, until the agent has been told
        self._turns: dict[str, _Turn] = {}  # by run id
        self._asking = TaskSet("a question to the editor")

    def on_connect(self, conn: Any) -> None:
        """The editor's end."""
        self._editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """What we can do."""
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
        self._keys[ident] = str(self._target) if self._fixed else f"agent:{self._target.agent}:acp:{ident}"
        self._places[ident] = cwd
        return schema.NewSessionResponse(session_id=ident)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Go on with a session: what was said is shown again."""
        key = self._key(session_id)
        self._keys[session_id] = key
        told = await self._link.call("chat.history", {"sessionKey": key, "limit": 200})
        for message in told.get("messages", ()):
            text = _text(message)
            if text and message.get("role") == "user":
                await self._show(session_id, helpers.update_user_message_text(text))
            elif text and message.get("role") == "assistant":
                await self._show(session_id, helpers.update_agent_message_text(text))
        return schema.LoadSessionResponse()

    async def list_sessions(self, **_: Any) -> schema.ListSessionsResponse:
        """The agent's sessions, newest first."""
        told = await self._link.call("sessions.list", {"limit": 50, "includeDerivedTitles": True})
        rows = [
            schema.SessionInfo(session_id=row["key"], cwd="/", title=row.get("derivedTitle") or row["key"])
            for row in told.get("sessions", ())
        ]
        return schema.ListSessionsResponse(sessions=rows)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """One message and all its run shows; returns when the outcome is known."""
        run = str(uuid.uuid4())
        turn = self._turns[run] = _Turn(session_id, self._key(session_id))
        text, pictures = _said(prompt)
        place = self._places.pop(session_id, "")
        if place and not text.startswith("/"):
            text = f"[The editor is open in {place}]\n{text}"
        try:
            params = {"sessionKey": turn.key, "message": text, "idempotencyKey": run, "deliver": False}
            await self._link.call("chat.send", {**params, **({"attachments": pictures} if pictures else {})})
            return schema.PromptResponse(stop_reason=await turn.end)  # type: ignore[arg-type]
        except MethodError as exc:
            raise acp.RequestError(-32000, exc.message) from None
        finally:
            self._turns.pop(run, None)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop what runs in this session."""
        await self._link.call("chat.abort", {"sessionKey": self._key(session_id)})

    async def authenticate(self, method_id: str, **_: Any) -> None:
        """There is nothing to do: the gateway's credential is this machine's."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """None are known."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """None are known."""

    async def listen(self) -> None:
        """Pass on what the gateway tells, until it hangs up."""
        while True:
            frame = await self._link.events.get()
            try:
                await self._heard(frame["event"], frame.get("payload") or {})
            except Exception:  # border to two protocols: one frame that is not understood must not end the session
                log.exception("event %s was not passed on", frame.get("event"))

    async def _heard(self, event: str, payload: dict[str, Any]) -> None:
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
            await self._tool(turn.session, data)

    async def _tool(self, session: str, data: dict[str, Any]) -> None:
        ident, name = str(data["toolCallId"]), str(data["name"])
        if data["phase"] == "start":
            kind: Any = KINDS.get(name, "other")
            update: Any = helpers.start_tool_call(
                ident, _title(name, data.get("args")), kind=kind, status="in_progress", raw_input=data.get("args")
            )
        elif data["phase"] == "result":
            blocks = (data.get("result") or {}).get("content") or ()
            shown = [helpers.tool_content(helpers.text_block(b["text"])) for b in blocks if b.get("type") == "text"]
            status: Any = "failed" if data.get("isError") else "completed"
            update = helpers.update_tool_call(ident, status=status, content=shown)
        else:
            return
        await self._show(session, update)

    async def _ended(self, turn: _Turn, payload: dict[str, Any]) -> None:
        """Words that were not streamed (a command's answer) are said now; then the prompt is answered."""
        state, text = payload["state"], _text(payload.get("message") or {})
        if state == "error":
            text = str(payload.get("errorMessage") or "the run failed")
        if text and (state == "error" or not turn.spoken):
            await self._show(turn.session, helpers.update_agent_message_text(text))
        if not turn.end.done():
            reason = "cancelled" if state == "aborted" else STOPS.get(str(payload.get("stopReason")), "end_turn")
            turn.end.set_result(reason)

    def _ask(self, family: str, payload: dict[str, Any]) -> None:
        request = payload.get("request") or {}
        turn = next((t for t in self._turns.values() if t.key == request.get("sessionKey")), None)
        if turn is None:
            return  # a question of another face's run
        self._asking.start(self._permit(family, turn.session, str(payload["id"]), request))

    async def _permit(self, family: str, session: str, ident: str, request: dict[str, Any]) -> None:
        """Have the editor ask. An editor that cannot, or goes away, has said no."""
        allowed = request.get("allowedDecisions") or tuple(DECISIONS)
        options = [
            schema.PermissionOption(option_id=word, name=DECISIONS[word][1], kind=DECISIONS[word][0])  # type: ignore[arg-type]
            for word in allowed
            if word in DECISIONS
        ]
        title = str(request.get("command") or request.get("title") or "a question")
        call = schema.ToolCallUpdate(
            tool_call_id=str(request.get("toolCallId") or ident), title=title, kind="execute", status="pending"
        )
        decision = "deny"
        try:
            answer = await self._editor.request_permission(session_id=session, tool_call=call, options=options)
            if answer.outcome.outcome == "selected" and answer.outcome.option_id in DECISIONS:
                decision = answer.outcome.option_id
        except Exception:  # border to the editor: whatever went wrong there, nobody said yes
            log.exception("the editor could not be asked")
        try:
            await self._link.call(f"{family}.approval.resolve", {"id": ident, "decision": decision})
        except MethodError as exc:
            log.warning("the answer came too late: %s", exc.message)

    async def _show(self, session: str, update: Any) -> None:
        await self._editor.session_update(session_id=session, update=update)

    def _key(self, session: str) -> str:
        """Ours for the editor's; after a restart of this bridge the editor may name one we made before."""
        known = self._keys.get(session)
        if known is not None:
            return known
        return session if session.startswith("agent:") else f"agent:{self._target.agent}:acp:{session}"


def _title(name: str, arguments: Any) -> str:
    values = [str(v) for v in arguments.values()] if isinstance(arguments, dict) else []
    return f"{name}: {values[0][:100]}" if values else name


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(b.get("text", "") for b in content or () if b.get("type") == "text")


def _said(prompt: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    """The words of a prompt, files that came with it included, and its pictures."""
    words: list[str] = []
    pictures: list[dict[str, Any]] = []
    for block in prompt:
        if block.type == "text":
            words.append(block.text)
        elif block.type == "image":
            pictures.append({"type": "image", "mimeType": block.mime_type, "content": block.data})
        elif block.type == "resource_link":
            words.append(f"[{block.name}]({block.uri})")
        elif block.type == "resource" and getattr(block.resource, "text", None):
            words.append(f'<file uri="{block.resource.uri}">\n{block.resource.text}\n</file>')
    return "\n".join(words), pictures


async def serve_acp(link: GatewayLink, target: SessionKey, fixed: bool, streams: tuple[Any, Any] | None = None) -> None:
    """Until the editor closes its end; then the link is closed too. `streams`: other than stdio."""
    bridge = AcpBridge(link, target, fixed)
    passing = asyncio.get_running_loop().create_task(bridge.listen())
    try:
        writing, reading = streams or (None, None)
        await acp.run_agent(bridge, writing, reading)  # type: ignore[arg-type]
    finally:
        passing.cancel()
        await link.close()
