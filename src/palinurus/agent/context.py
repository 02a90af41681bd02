"""What a tool sees of the run it is called in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from palinurus.agent.marks import TaintMarks
from palinurus.agent.plan import RunPlan
from palinurus.clock import Clock
from palinurus.core.policy import taint
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, Approver
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import Message, ToolCall
from palinurus.core.types.tool import ToolSettings


class CallProvenance(NamedTuple):
    """What the model had seen when it asked for the call."""

    messages: Sequence[Message] = ()
    taint: tuple[str, ...] = ()
    marks: TaintMarks | None = None  # which remembered files were written under taint


NO_PROVENANCE = CallProvenance()


class RunToolContext:
    """Implements `core.types.tool.ToolContext`."""

    __slots__ = ("_approver", "_call", "_card", "_clock", "_plan", "_seen", "_show")

    def __init__(
        self,
        plan: RunPlan,
        call: ToolCall,
        clock: Clock,
        show: Callable[[ToolCall, str], None],
        approver: Approver | None = None,
        card: Callable[[ToolCall, str, str], None] | None = None,  # (call, approval id, card)
        seen: CallProvenance = NO_PROVENANCE,
    ) -> None:
        self._seen = seen
        self._plan = plan
        self._call = call
        self._clock = clock
        self._show = show
        self._approver = approver
        self._card = card

    @property
    def workspace(self) -> str:
        return self._plan.workspace

    @property
    def agent(self) -> str:
        return self._plan.route.agent

    @property
    def session(self) -> str:
        return str(self._plan.route.key)

    @property
    def run(self) -> str:
        return self._plan.id

    @property
    def item(self) -> str:
        return self._plan.item

    @property
    def call(self) -> str:
        return self._call.id

    @property
    def trusted(self) -> bool:
        return self._plan.inbound.sender.trusted

    @property
    def inbound(self) -> Inbound:
        return self._plan.inbound

    @property
    def taint(self) -> tuple[str, ...]:
        return self._seen.taint

    def may_leak(self, url: str) -> bool:
        return taint.may_leak(url, self._seen.messages, self._plan.settings.taint)

    def file_taint(self, path: str) -> tuple[str, ...]:
        return self._seen.marks.of(path) if self._seen.marks else ()

    async def mark(self, path: str) -> None:
        if self._seen.marks:
            await self._seen.marks.add(path, self._seen.taint)

    @property
    def settings(self) -> ToolSettings:
        return self._plan.settings

    async def ask(self, ask: ApprovalRequest) -> ApprovalAnswer:
        if self._approver is None:
            return ApprovalAnswer(None, "nobody can be asked here")
        return await self._approver.ask(ask, self._put if self._card and self._plan.inbound.may_command else None)

    def _put(self, ident: str, text: str) -> None:
        assert self._card is not None
        self._card(self._call, ident, text)

    def now(self) -> int:
        return self._clock.now()

    def update(self, partial: str) -> None:
        self._show(self._call, partial)
