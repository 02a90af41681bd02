"""Any program that speaks the Agent Client Protocol (JSON-RPC, protocol version 1) on its standard streams.

Such a program has its own model, tools and settings; it asks before it acts only if it wants to. So it does no run of
a session that may not use commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import palinurus
from palinurus.agent.runtimes.brief import TalkKit, TalkWords, compose_first_words, to_words
from palinurus.agent.runtimes.drive import ProgramGone, ProgramMessage, ProgramTurnEnd, TalkSetting
from palinurus.agent.runtimes.items import get_object
from palinurus.agent.runtimes.jsonlines import JsonLinesChild, RpcPeer, RpcRefusal
from palinurus.core.types.events import RunEvent
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelFailure

VERSION = 1
STARTUP = 60.0  # seconds; some are fetched when they are first started
CUT = " …"
BETWEEN = {"paragraph": "\n\n", "newline": "\n", "space": " ", "none": ""}
READY, ENDED = "palinurus/ready", "palinurus/ended"  # our own marks among its messages

# Its kinds of tools, and which of ours they are like.
KINDS = {
    "execute": "exec", "edit": "edit", "delete": "write", "move": "write", "read": "read", "search": "read",
    "fetch": "web_fetch",
}  # fmt: skip
_ENDS: dict[str, ProgramTurnEnd] = {
    "end_turn": ProgramTurnEnd(),
    "max_tokens": ProgramTurnEnd("length"),
    "max_turn_requests": ProgramTurnEnd("max_turns", ModelFailure("refused", "it stopped after too many model calls")),
    "refusal": ProgramTurnEnd("error", ModelFailure("refused", "it refused to answer")),
    "cancelled": ProgramTurnEnd("aborted", ModelFailure("aborted", "it was cancelled")),
}


class AcpTalk:
    """See `drive.Talk`."""

    def __init__(self, setting: TalkSetting, kit: TalkKit) -> None:
        if "exec" not in setting.plan.tools or setting.plan.settings.rules.security == "deny":
            raise ProgramGone(
                "this session may not run commands, and nothing would keep it from doing so", "config", final=True
            )
        self._s = setting
        self._kit = kit
        self._peer: RpcPeer | None = None
        self._session = ""
        self._ready = False  # until then it tells of earlier turns
        self._cwd = kit.place.cwd or setting.plan.workspace
        self._held: list[str] = []  # texts that wait for the end of the turn
        self._shown = 0  # characters of this turn
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}  # by id: name and arguments
        self._prompting: asyncio.Task[None] | None = None
        self.over: ProgramTurnEnd | None = None

    # speaking

    async def open(self, goes_on: bool) -> None:
        plan = self._s.plan
        try:
            lines = await JsonLinesChild.start(self._kit.program.command, self._cwd, self._kit.env, self._kit.mark)
        except OSError as exc:
            raise ProgramGone(f"it cannot be started: {exc.strerror or exc}", "config", final=True) from exc
        self._peer = RpcPeer(lines, self._s.post)
        nothing = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        who = {"name": "palinurus", "title": "Palinurus", "version": palinurus.__version__}
        asked = {"protocolVersion": VERSION, "clientCapabilities": nothing, "clientInfo": who}
        try:
            can = get_object(await self._peer.request("initialize", asked, STARTUP), "agentCapabilities")
            goes_back = can.get("loadSession") and not self._kit.place.anew
            known = await self._begun(self._peer, await self._kit.known() if goes_back else "")
        except RpcRefusal as exc:
            raise ProgramGone(str(exc), "format", final=True) from exc
        self._s.post(ProgramMessage({"method": READY}))
        said = compose_first_words(plan, self._kit.brief, known=known, seen=goes_on)
        told = said if known else msgspec.structs.replace(said, texts=(self._kit.brief.instructions, *said.texts))
        self._prompt(told)

    async def _begun(self, peer: RpcPeer, ident: str) -> bool:
        """Load the session, or make one. True if it is the one we know."""
        where = {"cwd": self._cwd, "mcpServers": []}
        if ident:
            try:
                await peer.request("session/load", {"sessionId": ident, **where})
                self._session = ident
                return True
            except RpcRefusal:
                pass  # it has gone: a new one is told what was said so far
        self._session = str((await peer.request("session/new", where)).get("sessionId") or "")
        await self._kit.keep(self._session)
        return False

    def _prompt(self, said: TalkWords) -> None:
        self._prompting = asyncio.ensure_future(self._prompted(self._talking, said))

    async def _prompted(self, peer: RpcPeer, said: TalkWords) -> None:
        """One turn of its: the answer to the request is its end."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in said.texts]
        blocks += [{"type": "image", "mimeType": image.mimeType, "data": image.data} for image in said.images]
        try:
            made = await peer.request("session/prompt", {"sessionId": self._session, "prompt": blocks}, None)
            self._s.post(ProgramMessage({"method": ENDED, "params": {"why": made.get("stopReason")}}))
        except RpcRefusal as exc:
            self._s.post(ProgramMessage({"method": ENDED, "params": {"error": str(exc)}}))
        except ProgramGone:
            pass  # its end is posted by who reads

    async def steer(self, message: UserMessage) -> bool:
        """The protocol has no way to; the message gets a turn of its own."""
        return False

    async def again(self, messages: Sequence[UserMessage]) -> None:
        self._prompt(to_words(messages))

    async def interrupt(self) -> None:
        self._talking.notify("session/cancel", {"sessionId": self._session})

    async def close(self) -> None:
        if self._prompting is not None:
            self._prompting.cancel()
        if self._peer is not None:
            await self._peer.close()

    @property
    def _talking(self) -> RpcPeer:
        assert self._peer is not None, "open comes first"
        return self._peer

    # hearing

    def hear(self, message: dict[str, Any]) -> list[RunEvent]:
        method, params = str(message.get("method")), get_object(message, "params")
        if "id" in message:
            self._talking.answer(message, self._asked(method, params))
        elif method == READY:
            self._ready = True
        elif method == ENDED:
            return self._ended(params)
        elif method == "session/update" and self._ready and params.get("sessionId") == self._session:
            update = get_object(params, "update")
            handler = _UPDATES.get(str(update.get("sessionUpdate")))
            return handler(self, update) if handler is not None else []
        return []

    def _ended(self, params: dict[str, Any]) -> list[RunEvent]:
        told = self._s.mirror.delta(BETWEEN[self._kit.stream.between].join(filter(None, self._held)))
        self._held, self._shown = [], 0
        if "error" in params:
            self.over = ProgramTurnEnd("error", ModelFailure("server", str(params["error"])[:500]))
        else:
            self.over = _ENDS.get(str(params.get("why")), ProgramTurnEnd())
        return [*told, *self._s.mirror.cut()]

    def _chunk(self, update: dict[str, Any]) -> list[RunEvent]:
        text, most = str(get_object(update, "content").get("text") or ""), self._kit.stream.most
        if most:
            left, self._shown = max(most - self._shown, 0), self._shown + len(text)
            text = text if len(text) <= left else f"{text[:left]}{CUT}" if left else ""
        if self._kit.stream.delivery == "live":
            return self._s.mirror.delta(text)
        self._held[-1:] = ["".join((*self._held[-1:], text))]
        return []

    def _thinking(self, update: dict[str, Any]) -> list[RunEvent]:
        return self._s.mirror.thinking(str(get_object(update, "content").get("text") or ""))

    def _called(self, update: dict[str, Any]) -> list[RunEvent]:
        ident = str(update.get("toolCallId") or "")
        made = self._s.mirror.cut()
        if self._held:
            self._held.append("")
        self._calls[ident] = _name(update), _args(update)
        made += self._s.mirror.start_tool(ident, *self._calls[ident])
        return [*made, *self._updated(update)]

    def _updated(self, update: dict[str, Any]) -> list[RunEvent]:
        status = update.get("status")
        if status not in ("completed", "failed"):
            return []
        ident = str(update.get("toolCallId") or "")
        name, _ = self._calls.get(ident, ("", {}))
        source = "web" if name == "web_fetch" else ""
        text, most = _text(update), self._kit.stream.update
        text = f"{text[:most]}{CUT}" if most and len(text) > most else text
        return self._s.mirror.end_tool(ident, text, error=status == "failed", source=source)

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method != "session/request_permission":
            return None
        call = get_object(params, "toolCall")
        ident = str(call.get("toolCallId") or "")
        name, args = self._calls.get(ident, (_name(call), {}))
        refused = await self._s.bridge.find_refusal(ident, name, {**args, **_args(call)})
        wanted = "reject_once" if refused else "allow_once"
        offered = params.get("options")
        for option in offered if isinstance(offered, list) else ():
            if isinstance(option, dict) and option.get("kind") == wanted:
                return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
        return {"outcome": {"outcome": "cancelled"}}


_UPDATES: dict[str, Callable[[AcpTalk, dict[str, Any]], list[RunEvent]]] = {
    "agent_message_chunk": AcpTalk._chunk,
    "agent_thought_chunk": AcpTalk._thinking,
    "tool_call": AcpTalk._called,
    "tool_call_update": AcpTalk._updated,
}


def _name(call: dict[str, Any]) -> str:
    kind = str(call.get("kind") or "other")
    return KINDS.get(kind, kind)


def _args(call: dict[str, Any]) -> dict[str, Any]:
    """What it is about to do, as far as it says."""
    title = str(call.get("title") or "")
    return {**get_object(call, "rawInput"), **({"description": title} if title else {})}


def _text(update: dict[str, Any]) -> str:
    found = update.get("content")
    blocks = (
        [get_object(block, "content") for block in found if isinstance(block, dict)] if isinstance(found, list) else []
    )
    return "\n".join(str(block["text"]) for block in blocks if block.get("text"))
