"""The Codex app-server: JSON-RPC on its standard streams. Threads are sessions, turns are runs.

Knows Codex's methods, and how our policy narrows what it may do; what it does is told to the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import palinurus
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.runtimes import items
from palinurus.agent.runtimes.brief import TalkKit, TalkWords, compose_first_words, to_words
from palinurus.agent.runtimes.drive import ProgramGone, ProgramTurnEnd, TalkSetting
from palinurus.agent.runtimes.jsonlines import JsonLinesChild, RpcPeer, RpcRefusal
from palinurus.config.sections.runtimes import RuntimeProgram
from palinurus.core.types.events import CompactionEnd, CompactionStart, RunEvent
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.providers.vendors import efforts

HOST = "codex"
STARTUP = 30.0  # seconds for initialize
STEER = 10.0
PRIORITY = "priority"  # the service tier of fast runs

_WRITES = frozenset({"write", "edit", "apply_patch"})
_KINDS: dict[str, FailureKind] = {
    "contextWindowExceeded": "overflow",
    "sessionBudgetExceeded": "budget",
    "usageLimitExceeded": "rate_limit",
    "rateLimitExceeded": "rate_limit",
    "serverOverloaded": "overloaded",
    "modelNotFound": "not_found",
    "unauthorized": "auth",
    "badRequest": "format",
    "cyberPolicy": "refused",
    "httpConnectionFailed": "network",
    "responseStreamConnectionFailed": "network",
    "responseStreamDisconnected": "cut",
}


class CodexTalk:
    """See `drive.Talk`."""

    def __init__(self, setting: TalkSetting, kit: TalkKit) -> None:
        self._s = setting
        self._kit = kit
        self._peer: RpcPeer | None = None
        self._thread = ""
        self._turn = ""
        self._items: dict[str, dict[str, Any]] = {}  # that have started, by id
        self.over: ProgramTurnEnd | None = None

    # speaking

    async def open(self, goes_on: bool) -> None:
        program, plan = self._kit.program, self._s.plan
        try:
            lines = await JsonLinesChild.start(program.command, plan.workspace, self._kit.env, self._kit.mark)
        except OSError as exc:
            raise ProgramGone(f"it cannot be started: {exc.strerror or exc}", "config", final=True) from exc
        self._peer = RpcPeer(lines, self._s.post)
        who = {"name": "palinurus", "title": "Palinurus", "version": palinurus.__version__}
        try:
            await self._peer.request("initialize", {"clientInfo": who}, STARTUP)
            self._peer.notify("initialized")
            known = await self._begun(self._peer, await self._kit.known())
            await self._start(compose_first_words(plan, self._kit.brief, known=known, seen=goes_on))
        except RpcRefusal as exc:
            raise ProgramGone(str(exc), "format", final=True) from exc

    async def _begun(self, peer: RpcPeer, ident: str) -> bool:
        """Resume the thread, or start one. True if it is the one we know."""
        asked = build_thread_params(self._s.plan, self._kit.program, self._kit.brief.instructions, self._tier)
        if ident:
            try:
                await peer.request("thread/resume", {"threadId": ident, **asked})
                self._thread = ident
                return True
            except RpcRefusal:
                pass  # it has gone, with its files: a new one is told what was said so far
        made = await peer.request("thread/start", asked)
        self._thread = str(items.get_object(made, "thread").get("id") or "")
        await self._kit.keep(self._thread)
        return False

    async def _start(self, said: TalkWords) -> None:
        plan = self._s.plan
        effort = efforts.choose_effort(plan.choices[0].level.level, plan.model)
        asked = {
            "threadId": self._thread,
            "input": _input(said),
            **({"effort": effort} if effort else {}),
            **self._tier,
        }
        made = await self._talking.request("turn/start", asked)
        self._turn = str(items.get_object(made, "turn").get("id") or "")

    async def steer(self, message: UserMessage) -> bool:
        asked = {"threadId": self._thread, "expectedTurnId": self._turn, "input": _input(to_words((message,)))}
        try:
            await self._talking.request("turn/steer", asked, STEER)
        except RpcRefusal:
            return False
        return True

    async def again(self, messages: Sequence[UserMessage]) -> None:
        try:
            await self._start(to_words(messages))
        except RpcRefusal as exc:
            raise ProgramGone(str(exc), "format", final=True) from exc

    async def interrupt(self) -> None:
        try:
            await self._talking.request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn}, STEER)
        except (RpcRefusal, ProgramGone):
            pass  # the turn is over, or the process is; either shows by itself

    async def close(self) -> None:
        if self._peer is not None:
            await self._peer.close()

    @property
    def _tier(self) -> dict[str, Any]:
        return choose_service_tier(self._s.plan, self._s.ports.clock.now())

    @property
    def _talking(self) -> RpcPeer:
        assert self._peer is not None, "open comes first"
        return self._peer

    # hearing

    def hear(self, message: dict[str, Any]) -> list[RunEvent]:
        method, params = str(message.get("method")), message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" in message:
            self._talking.answer(message, self._asked(method, params))
            return []
        handler = _HEARD.get(method)
        # A resumed thread first tells of its earlier turns.
        ours = params.get("threadId") == self._thread and params.get("turnId", self._turn) == self._turn
        return handler(self, params) if handler is not None and ours else []

    def _delta(self, params: dict[str, Any]) -> list[RunEvent]:
        return self._s.mirror.delta(str(params.get("delta") or ""))

    def _thinking(self, params: dict[str, Any]) -> list[RunEvent]:
        return self._s.mirror.thinking(str(params.get("delta") or ""))

    def _started(self, params: dict[str, Any]) -> list[RunEvent]:
        item = items.get_object(params, "item")
        self._items[str(item.get("id"))] = item
        if item.get("type") == "contextCompaction":
            return [CompactionStart("codex")]
        sort = items.TOOLS.get(str(item.get("type")))
        return self._s.mirror.start_tool(str(item.get("id")), sort.name(item), sort.args(item)) if sort else []

    def _completed(self, params: dict[str, Any]) -> list[RunEvent]:
        item, mirror = items.get_object(params, "item"), self._s.mirror
        ident, kind = str(item.get("id")), item.get("type")
        if kind == "agentMessage":
            return mirror.complete_text(str(item.get("text") or ""))
        if kind == "reasoning":
            mirror.complete_thought(items.get_thought(item))
            return []
        if kind == "contextCompaction":
            return [CompactionEnd(completed=True)]
        sort = items.TOOLS.get(str(kind))
        if sort is None:
            return []
        begun = [] if ident in self._items else mirror.start_tool(ident, sort.name(item), sort.args(item))
        self._items.pop(ident, None)
        ended = mirror.end_tool(ident, sort.text(item), error=items.has_failed(item), source=sort.source(item))
        return [*begun, *ended]

    def _used(self, params: dict[str, Any]) -> list[RunEvent]:
        self._s.mirror.add_usage(
            items.parse_codex_usage(items.get_object(items.get_object(params, "tokenUsage"), "last"))
        )
        return []

    def _finished(self, params: dict[str, Any]) -> list[RunEvent]:
        turn = items.get_object(params, "turn")
        if turn.get("id") != self._turn:
            return []
        status, error = turn.get("status"), items.get_object(turn, "error")
        if status == "completed":
            self.over = ProgramTurnEnd()
        else:
            text = str(error.get("message") or f"the turn was {status}")
            self.over = ProgramTurnEnd(
                "error", ModelFailure(_kind(error.get("codexErrorInfo")), f"codex: {text}"[:500])
            )
        return []

    # being asked

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Its questions. What nobody here can answer is declined."""
        ident = str(params.get("itemId") or "")
        why = str(params.get("reason") or "")
        item = self._items.get(ident, {})
        if method == "item/commandExecution/requestApproval":
            named = {
                "command": params.get("command") or item.get("command"),
                "cwd": params.get("cwd") or item.get("cwd"),
            }
            asked = {key: str(value) for key, value in named.items() if value}
            if network := params.get("networkApprovalContext"):
                asked["network"] = str(network)
            return {"decision": _decision(await self._s.bridge.find_refusal(ident, "exec", asked, why))}
        if method == "item/fileChange/requestApproval":
            args = items.TOOLS["fileChange"].args(item)
            root = {"root": str(params["grantRoot"])} if params.get("grantRoot") else {}
            return {
                "decision": _decision(await self._s.bridge.find_refusal(ident, "apply_patch", {**args, **root}, why))
            }
        return _DECLINED.get(method)


_HEARD: dict[str, Callable[[CodexTalk, dict[str, Any]], list[RunEvent]]] = {
    "item/agentMessage/delta": CodexTalk._delta,
    "item/reasoning/summaryTextDelta": CodexTalk._thinking,
    "item/reasoning/textDelta": CodexTalk._thinking,
    "item/started": CodexTalk._started,
    "item/completed": CodexTalk._completed,
    "thread/tokenUsage/updated": CodexTalk._used,
    "turn/completed": CodexTalk._finished,
}
_DECLINED: dict[str, dict[str, Any]] = {
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None, "_meta": None},
}


def build_thread_params(
    plan: RunPlan, program: RuntimeProgram, instructions: str, speed: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of thread/start and thread/resume. The owner's settings choose among what policy leaves."""
    rules, tools = plan.settings.rules, plan.tools
    commands = "exec" in tools and rules.security != "deny"
    writes = commands and not _WRITES.isdisjoint(tools)
    approval = program.approval or ("never" if (rules.security, rules.ask) == ("full", "off") else "on-request")
    if rules.ask == "always" or not plan.inbound.sender.trusted:
        approval = "untrusted"
    config: dict[str, Any] = {}
    if not commands:
        config["features"] = {"shell_tool": False, "unified_exec": False}
    if "web_search" not in tools:
        config["web_search"] = "disabled"
    return {
        "model": plan.model.ref.model,
        "cwd": plan.workspace,
        "approvalPolicy": approval,
        "sandbox": (program.sandbox or "workspace-write") if writes else "read-only",
        "developerInstructions": instructions,
        **({"config": config} if config else {}),
        **speed,
    }


def choose_service_tier(plan: RunPlan, now: int) -> dict[str, Any]:
    """Decided when a turn starts; a turn that is going keeps what it has. Never set: nothing is sent."""
    fast = plan.choices[0].fast.at((now - plan.started) / 1000)
    return {} if fast is None else {"serviceTier": PRIORITY if fast else None}


def _input(said: TalkWords) -> list[dict[str, Any]]:
    texts = [{"type": "text", "text": text, "text_elements": []} for text in said.texts]
    return [*texts, *({"type": "image", "url": f"data:{i.mimeType};base64,{i.data}"} for i in said.images)]


def _decision(refused: str) -> str:
    return "decline" if refused else "accept"


def _kind(info: Any) -> FailureKind:
    word = next(iter(info), "") if isinstance(info, dict) else str(info)
    return _KINDS.get(word, "server")
