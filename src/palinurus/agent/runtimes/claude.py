"""Claude Code without its terminal: `claude -p` with JSON lines both ways. Sessions are sessions, results are runs.

Knows its arguments and messages, and how our policy narrows what it may do; what it does is told to the mirror.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.runtimes.brief import TalkKit, TalkWords, compose_first_words, to_words
from palinurus.agent.runtimes.drive import ProgramGone, ProgramMessage, ProgramTurnEnd, TalkSetting
from palinurus.agent.runtimes.items import get_object
from palinurus.agent.runtimes.jsonlines import JsonLinesChild
from palinurus.config.sections.runtimes import RuntimeProgram
from palinurus.core.types.events import RunEvent
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.vendors import anthropic

HOST = "claude-cli"
BASE = (
    "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
    "--include-partial-messages", "--permission-prompt-tool", "stdio",
    # hooks and servers that files of the workspace name would run outside any sandbox; the agent writes such files
    "--setting-sources", "user", "--strict-mcp-config",
)  # fmt: skip
LOST = "No conversation found"  # what it says on stderr when the session it is to resume is not there

# Its tools that ours stand for: without ours, they are taken away.
SAME: dict[str, tuple[str, ...]] = {
    "exec": ("Bash", "BashOutput", "KillShell", "Monitor"),
    "write": ("Write", "NotebookEdit"),
    "edit": ("Edit", "MultiEdit"),
    "read": ("Read", "Glob", "Grep", "LS"),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "sessions_spawn": ("Task", "Agent", "Workflow"),
}
# They wait for a terminal, or for a clock, that is not there.
NEVER = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "CronCreate", "CronDelete", "CronList", "ScheduleWakeup")
_OURS = {theirs: ours for ours, names in SAME.items() for theirs in names}
_OUTSIDE = {"WebFetch": "web", "WebSearch": "web"}
_STATUS: dict[int, FailureKind] = {401: "auth", 403: "auth", 404: "not_found", 429: "rate_limit", 529: "overloaded"}


class ClaudeTalk:
    """See `drive.Talk`."""

    def __init__(self, setting: TalkSetting, kit: TalkKit) -> None:
        self._s = setting
        self._kit = kit
        self._lines: JsonLinesChild | None = None
        self._reader: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._session = ""
        self._fresh = True
        self._names: dict[str, str] = {}  # of calls by id
        self._last = TokenUsage()  # of the last model call
        self.over: ProgramTurnEnd | None = None

    # speaking

    async def open(self, goes_on: bool) -> None:
        plan = self._s.plan
        known = await self._kit.known()
        self._session, self._fresh = known or str(uuid.uuid4()), not known
        if self._fresh:
            await self._kit.keep(self._session)  # before it exists, so that it is never lost
        argv = (*self._kit.program.command, *build_arguments(plan, self._kit.program, self._kit.brief.instructions))
        which = ("--session-id", self._session) if self._fresh else ("--resume", self._session)
        try:
            self._lines = await JsonLinesChild.start((*argv, *which), plan.workspace, self._kit.env, self._kit.mark)
        except OSError as exc:
            raise ProgramGone(f"it cannot be started: {exc.strerror or exc}", "config", final=True) from exc
        self._reader = asyncio.ensure_future(self._read(self._lines))
        self._say(compose_first_words(plan, self._kit.brief, known=not self._fresh, seen=goes_on))

    def _say(self, said: TalkWords) -> None:
        content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in said.texts]
        for image in said.images:
            source = {"type": "base64", "media_type": image.mimeType, "data": image.data}
            content.append({"type": "image", "source": source})
        message = {"role": "user", "content": content}
        self._talking.send(
            {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": self._session}
        )

    async def steer(self, message: UserMessage) -> bool:
        """It takes messages between two of its model calls only when it chooses to; ours get a turn of their own."""
        return False

    async def again(self, messages: Sequence[UserMessage]) -> None:
        self._say(to_words(messages))

    async def interrupt(self) -> None:
        self._control({"subtype": "interrupt"})

    async def close(self) -> None:
        for task in (*((self._reader,) if self._reader else ()), *self._tasks):
            task.cancel()
        if self._lines is not None:
            await self._lines.end()

    def _control(self, request: dict[str, Any]) -> None:
        self._talking.send({"type": "control_request", "request_id": str(uuid.uuid4()), "request": request})

    @property
    def _talking(self) -> JsonLinesChild:
        assert self._lines is not None, "open comes first"
        return self._lines

    async def _read(self, lines: JsonLinesChild) -> None:
        while (message := await lines.read()) is not None:
            self._s.post(ProgramMessage(message))
        why = await lines.exit_reason()
        if LOST in why:
            await self._kit.keep("")  # the next start begins anew, and is told what was said
        self._s.post(ProgramGone(why))

    # hearing

    def hear(self, message: dict[str, Any]) -> list[RunEvent]:
        handler = _HEARD.get(str(message.get("type")))
        if handler is None or message.get("parent_tool_use_id"):  # what its own sub-agents say is not the answer
            return []
        return handler(self, message)

    def _streamed(self, message: dict[str, Any]) -> list[RunEvent]:
        delta = get_object(get_object(message, "event"), "delta")
        if delta.get("type") == "thinking_delta":
            return self._s.mirror.thinking(str(delta.get("thinking") or ""))
        return self._s.mirror.delta(str(delta.get("text") or "")) if delta.get("type") == "text_delta" else []

    def _said(self, message: dict[str, Any]) -> list[RunEvent]:
        mirror, made = self._s.mirror, list[RunEvent]()
        body = get_object(message, "message")
        if body.get("model") == "<synthetic>":  # its own words for an error; the result has it as one
            return made
        self._last = parse_claude_usage(body)
        for block in _blocks(body):
            if block.get("type") == "text":
                made += mirror.complete_text(str(block.get("text") or ""))
            elif block.get("type") == "thinking":
                mirror.complete_thought(str(block.get("thinking") or ""))
            elif block.get("type") == "tool_use":
                ident, name = str(block.get("id") or ""), str(block.get("name") or "tool")
                self._names[ident] = name
                made += mirror.start_tool(ident, _OURS.get(name, name), get_object(block, "input"))
        return made

    def _resulted(self, message: dict[str, Any]) -> list[RunEvent]:
        made: list[RunEvent] = []
        for block in _blocks(get_object(message, "message")):
            if block.get("type") == "tool_result":
                ident = str(block.get("tool_use_id") or "")
                name = self._names.get(ident, "")
                source = _OUTSIDE.get(name) or (name if name.startswith("mcp__") else "")
                error = bool(block.get("is_error"))
                made += self._s.mirror.end_tool(ident, _text(block.get("content")), error=error, source=source)
        return made

    def _finished(self, message: dict[str, Any]) -> list[RunEvent]:
        for used in _split(parse_claude_usage(message), self._last):
            self._s.mirror.add_usage(used)
        if message.get("subtype") == "success" and not message.get("is_error"):
            self.over = ProgramTurnEnd()
            return []
        status = message.get("api_error_status")
        kind = _STATUS.get(status, "server") if isinstance(status, int) else "server"
        text = str(message.get("result") or _text(message.get("errors")) or message.get("subtype") or "failed")
        self.over = ProgramTurnEnd("error", ModelFailure(kind, f"claude: {text}"[:500]))
        return []

    def _asked(self, message: dict[str, Any]) -> list[RunEvent]:
        task = asyncio.ensure_future(self._answered(str(message.get("request_id")), get_object(message, "request")))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return []

    async def _answered(self, ident: str, request: dict[str, Any]) -> None:
        if request.get("subtype") != "can_use_tool":
            body: dict[str, Any] = {"subtype": "error", "request_id": ident, "error": "not available here"}
        else:
            name, given = str(request.get("tool_name")), get_object(request, "input")
            call, why = str(request.get("tool_use_id") or ident), str(request.get("decision_reason") or "")
            refused = await self._s.bridge.find_refusal(call, _OURS.get(name, name), given, why)
            told = {"behavior": "deny", "message": refused} if refused else {"behavior": "allow", "updatedInput": given}
            body = {"subtype": "success", "request_id": ident, "response": told}
        self._talking.send({"type": "control_response", "response": body})


_HEARD: dict[str, Callable[[ClaudeTalk, dict[str, Any]], list[RunEvent]]] = {
    "stream_event": ClaudeTalk._streamed,
    "assistant": ClaudeTalk._said,
    "user": ClaudeTalk._resulted,
    "result": ClaudeTalk._finished,
    "control_request": ClaudeTalk._asked,
}


def build_arguments(plan: RunPlan, program: RuntimeProgram, instructions: str) -> tuple[str, ...]:
    """All but which session. The owner's settings choose among what policy leaves."""
    rules, model = plan.settings.rules, plan.model.ref.model
    missing = {ours for ours in SAME if ours not in plan.tools or (ours == "exec" and rules.security == "deny")}
    denied = sorted(theirs for ours in missing for theirs in SAME[ours])
    mode = program.permission or ("acceptEdits" if {"write", "edit"} <= plan.tools.keys() else "default")
    if rules.ask == "always" or not plan.inbound.sender.trusted:
        mode = "default"
    return (
        *BASE,
        "--model",
        model,
        *anthropic.build_effort_arguments(plan.choices[0].level.level, model),
        "--permission-mode",
        mode,
        "--append-system-prompt",
        instructions,
        *(("--mcp-config", program.mcp) if program.mcp else ()),
        "--disallowedTools",
        ",".join((*NEVER, *denied)),
    )


class _Tokens(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


def parse_claude_usage(result: dict[str, Any]) -> TokenUsage:
    """What a model call or, from a result message, a whole turn used."""
    try:
        told = msgspec.convert(get_object(result, "usage"), _Tokens)
    except msgspec.ValidationError:
        return TokenUsage()
    read, made = told.cache_read_input_tokens, told.cache_creation_input_tokens
    total = told.input_tokens + told.output_tokens + read + made
    return TokenUsage(told.input_tokens, told.output_tokens, read, made, totalTokens=total)


def _split(total: TokenUsage, last: TokenUsage) -> tuple[TokenUsage, ...]:
    """A turn's usage with that of its last call apart: the last call tells how full the context is."""
    read, made = total.cacheRead - last.cacheRead, total.cacheWrite - last.cacheWrite
    rest = TokenUsage(
        total.input - last.input,
        total.output - last.output,
        read,
        made,
        totalTokens=total.totalTokens - last.totalTokens,
    )
    return (rest, last) if min(rest.input, rest.output, read, made) >= 0 and rest != TokenUsage() else (total,)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    """Of a tool result: a text, or blocks."""
    if isinstance(content, str):
        return content
    found = content if isinstance(content, list) else []
    return "\n".join(str(b.get("text")) if isinstance(b, dict) else str(b) for b in found if b)
