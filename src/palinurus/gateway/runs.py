"""One run as clients see it: run events in, `agent` and `chat` payloads out. A machine without I/O: `feed`, `flush`.

Text is cumulative over the whole run in `chat` and over one model turn in `agent`. Who gets which push is the
broadcaster's business; this file only says what kind of listener each is for.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.stream.answer import LiveText, collect_visible_text
from palinurus.core.types import events
from palinurus.core.types.events import AgentEnd, RunEndReason, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.usage import TokenUsage

# all: broadcast to every reader; tool: to the starter and those who follow sessions; session: the run's edges.
Audience: TypeAlias = Literal["all", "tool", "session"]

_KINDS = {"refused": "refusal", "timeout": "timeout", "rate_limit": "rate_limit", "overflow": "context_length"}
_COMMANDS = frozenset({"exec", "process"})


class RunPush(msgspec.Struct, frozen=True):
    """Something to send."""

    audience: Audience
    event: str
    payload: dict[str, Any]


class EndedRun(msgspec.Struct, frozen=True):
    """What is remembered of a run that is over: not what it read and wrote, which may be megabytes."""

    item: str
    text: str
    started: int
    ended: int
    why: RunEndReason
    error: str | None  # None: it did not fail
    model: tuple[str, str]  # provider and model of its last answer
    usage: TokenUsage


class RunView:
    """A run in flight. `id` is what its client calls it; `text` all it has said so far, as people see it."""

    def __init__(self, ident: str, item: str, session: str, agent: str, inbound: Inbound) -> None:
        self.id = ident
        self.item = item
        self.session = session
        self.agent = agent
        self.inbound = inbound
        self.conn = ""  # the connection that asked for it
        self.started = 0
        self.stop = ""  # why it was stopped, as chat.abort calls it
        self.waiting = False  # text came that nobody has been told of
        self._live: LiveText | None = None
        self._seq = 0
        self._text = ""
        self._turn = ""  # text of this model turn
        self._fresh: list[str] = []  # what came since; joined when asked for: adding to a long text copies it
        self._told = 0  # characters of `text` that were sent
        self._turn_told = 0
        self._replaced = False
        self._calls: dict[str, tuple[str, int]] = {}

    @property
    def text(self) -> str:
        """All it has said so far."""
        self._join()
        return self._text

    def close(self, event: AgentEnd) -> EndedRun:
        """What is to be remembered of it."""
        last = next((m for m in reversed(event.messages) if isinstance(m, AssistantMessage)), None)
        return EndedRun(
            item=self.item,
            text=self.text,
            started=self.started,
            ended=event.ended,
            why=event.end,
            error=event.failure.message if event.failure is not None else None,
            model=(last.provider, last.model) if last is not None else ("", ""),
            usage=event.usage,
        )

    def _join(self) -> None:
        if self._fresh:
            fresh = "".join(self._fresh)
            self._fresh.clear()
            self._text += fresh
            self._turn += fresh

    def feed(self, event: RunEvent, now: int) -> list[RunPush]:
        """What this event makes clients see now; text waits for `flush`, except before what must come after it."""
        kind = type(event)
        if kind is events.MessageUpdate:
            return self._update(event, now)  # type: ignore[arg-type]
        step = _STEPS.get(kind)
        return step(self, event, now) if step is not None else []

    def flush(self, now: int) -> list[RunPush]:
        """The text that waits, as one delta in each stream."""
        if not self.waiting:
            return []
        self.waiting = False
        self._join()
        delta, turn = self._text[self._told :], self._turn[self._turn_told :]
        replace = {"replace": True} if self._replaced else {}
        if self._replaced:
            delta, turn = self._text, self._turn
        self._told, self._turn_told, self._replaced = len(self._text), len(self._turn), False
        agent = self._agent("assistant", {"text": self._turn, "delta": turn, **replace}, now)
        chat = self._chat("delta", now, {"deltaText": delta, **replace, "message": self._message(now)})
        return [agent, chat]

    # --- events ----------------------------------------------------------------------------------------------

    def _start(self, event: events.AgentStart, now: int) -> list[RunPush]:
        if self._live is not None:  # begun anew: another node takes over
            self._fresh.clear()
            self._text, self._turn, self._told, self._turn_told, self._replaced = "", "", 0, 0, True
        self.started = event.started
        self._live = LiveText(event.reasoning)
        self._live.feed(event)
        return [
            self._agent("lifecycle", {"phase": "start", "startedAt": event.started}, now),
            RunPush("session", "sessions.changed", {"phase": "start", "runId": self.id, "ts": now}),
        ]

    def _begin(self, event: events.MessageStart, now: int) -> list[RunPush]:
        pushes = self.flush(now)
        self._shown(event)
        if event.message is None:
            self._join()
            self._turn, self._turn_told = "", 0
        return pushes

    def _update(self, event: events.MessageUpdate, now: int) -> list[RunPush]:
        if self._live is None:  # a command's answer has no run around it; its end carries the whole
            return []
        if event.kind == "status":
            return [self._agent("status", {"text": event.delta}, now)]
        pushes: list[RunPush] = []
        for kind, text in self._live.feed(event):
            if kind == "reasoning":
                pushes.append(self._agent("thinking", {"text": text, "delta": text}, now))
            else:
                self._say(kind, text)
        return pushes

    def _message_end(self, event: events.MessageEnd, now: int) -> list[RunPush]:
        self._shown(event)
        return self.flush(now) if isinstance(event.message, AssistantMessage) else []

    def _shown(self, event: RunEvent) -> None:
        for kind, text in self._live.feed(event) if self._live is not None else ():
            if kind != "reasoning":
                self._say(kind, text)

    def _say(self, kind: str, text: str) -> None:
        if kind == "replace":
            self._join()
            self._text = self._text[: len(self._text) - len(self._turn)] + text
            self._turn, self._replaced = text, True
        else:
            self._fresh.append(text)
        self.waiting = True

    def _tool_start(self, event: events.ToolStart, now: int) -> list[RunPush]:
        pushes = self.flush(now)
        self._calls[event.id] = (event.summary or event.name, now)
        data = {"phase": "start", "name": event.name, "toolCallId": event.id, "args": event.args}
        item = {**self._item(event.id, event.name), "phase": "start", "status": "running", "startedAt": now}
        return [*pushes, self._agent("tool", data, now, "tool"), self._agent("item", item, now)]

    def _tool_update(self, event: events.ToolUpdate, now: int) -> list[RunPush]:
        partial = {"content": [{"type": "text", "text": event.partial}]}
        data = {"phase": "update", "name": event.name, "toolCallId": event.id, "partialResult": partial}
        pushes = [self._agent("tool", data, now, "tool")]
        if event.name in _COMMANDS:
            pushes.append(self._output(event.id, event.name, event.partial, now, phase="delta", status="running"))
        return pushes

    def _tool_end(self, event: events.ToolEnd, now: int) -> list[RunPush]:
        result = {"content": msgspec.to_builtins(event.result.content), "details": event.result.details}
        data = {
            "phase": "result",
            "name": event.name,
            "toolCallId": event.id,
            "meta": self._calls.get(event.id, (event.name, now))[0],
            "isError": event.is_error,
            "durationMs": event.took_ms,  # ours: the two events may be pushed together
            "result": result,
        }
        status = "failed" if event.is_error else "completed"
        item = {**self._item(event.id, event.name), "phase": "end", "status": status, "endedAt": now}
        pushes = [self._agent("tool", data, now, "tool"), self._agent("item", item, now)]
        if event.name in _COMMANDS:
            extra = {"phase": "end", "status": status, "durationMs": event.took_ms}
            pushes.append(self._output(event.id, event.name, event.result.text, now, **extra))
        self._calls.pop(event.id, None)
        return pushes

    def _item(self, call: str, name: str) -> dict[str, Any]:
        kind = "command" if name in _COMMANDS else "tool"
        title, started = self._calls.get(call, (name, 0))
        made = {"itemId": f"{kind}:{call}", "kind": kind, "title": title, "name": name}
        return {**made, "toolCallId": call, "startedAt": started}

    def _output(self, call: str, name: str, output: str, now: int, **extra: Any) -> RunPush:
        data = {**self._item(call, name), "output": output, **extra}
        return self._agent("command_output", data, now)

    def _compaction(self, event: events.CompactionStart | events.CompactionEnd, now: int) -> list[RunPush]:
        start = isinstance(event, events.CompactionStart)
        data: dict[str, Any] = {"phase": "start" if start else "end"}
        if isinstance(event, events.CompactionEnd):
            data |= {"completed": event.completed, "willRetry": event.will_retry}
        shown = {**data, "operation": "compact", "operationId": f"{self.id}:compact", "ts": now}
        return [self._agent("compaction", data, now), RunPush("session", "session.operation", shown)]

    def _end(self, event: AgentEnd, now: int) -> list[RunPush]:
        self._replaced = self._replaced and self.waiting
        pushes = self.flush(now) if self._live is not None else []
        stopped = event.end in ("aborted", "timeout")
        failed = event.failure is not None and not stopped
        if not failed and not stopped:
            whole = collect_visible_text([m for m in event.messages if isinstance(m, AssistantMessage)])
            self._text = whole if self._live is None or not self.text else self.text
        ended = {"aborted": stopped, "endedAt": event.ended or now}
        if event.failure is not None and not stopped:
            said = event.failure.message
            message = {**self._message(now), "content": [{"type": "text", "text": f"Error: {said}"}]}
            kind = _KINDS.get(event.failure.kind, "unknown")
            told = {"errorMessage": said, "errorKind": kind, "failureKind": event.failure.kind}  # the last is ours
            pushes += [self._chat("error", now, {**told, "message": message})]
            data = {"phase": "error", "error": said, **ended}
        else:
            reason = self.stop or ("timeout" if event.end == "timeout" else "stop-command")
            halted = {"stopReason": reason, "message": self._message(now)}
            pushes += [self._chat("aborted", now, halted) if stopped else self._final(event, now)]
            data = {"phase": "end", "stopReason": event.end, **ended}
        if self._live is None:  # a command: nothing ran
            return pushes
        edge = {"phase": "error" if failed else "end", "runId": self.id, "ts": now}
        return [*pushes, self._agent("lifecycle", data, now), RunPush("session", "sessions.changed", edge)]

    def _final(self, event: AgentEnd, now: int) -> RunPush:
        message = self._message(now)
        if self._live is None:
            message |= {"command": True, "model": "gateway-injected", "provider": "openclaw"}
        shown = {"message": message} if self.text.strip() else {}
        notices = {"notices": list(event.notices)} if event.notices else {}
        return self._chat("final", now, {"stopReason": event.end, **shown, **notices})

    # --- payloads --------------------------------------------------------------------------------------------

    def _message(self, now: int) -> dict[str, Any]:
        return {"role": "assistant", "content": [{"type": "text", "text": self.text}], "timestamp": now}

    def _chat(self, state: str, now: int, more: dict[str, Any]) -> RunPush:
        self._seq += 1
        head = {"runId": self.id, "sessionKey": self.session, "agentId": self.agent, "seq": self._seq, "state": state}
        return RunPush("all", "chat", {**head, **more})

    def _agent(self, stream: str, data: dict[str, Any], now: int, audience: Audience = "all") -> RunPush:
        self._seq += 1
        head = {"runId": self.id, "stream": stream, "data": data}
        place = {"sessionKey": self.session, "agentId": self.agent, "seq": self._seq, "ts": now}
        return RunPush(audience, "agent", {**head, **place})


_STEPS: dict[type, Any] = {
    events.AgentStart: RunView._start,
    events.MessageStart: RunView._begin,
    events.MessageEnd: RunView._message_end,
    events.ToolStart: RunView._tool_start,
    events.ToolUpdate: RunView._tool_update,
    events.ToolEnd: RunView._tool_end,
    events.CompactionStart: RunView._compaction,
    events.CompactionEnd: RunView._compaction,
    AgentEnd: RunView._end,
}
