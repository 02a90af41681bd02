"""What a tool sees of the run it is called in."""

from __future__ import annotations

from collections.abc import Callable

from palinurus.agent.plan import RunPlan
from palinurus.clock import Clock
from palinurus.core.types.approval import Approver, Ask, Told
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import ToolCall
from palinurus.core.types.tool import ToolSettings


class Context:
    """Implements `core.types.tool.ToolContext`."""

    __slots__ = ("_approver", "_call", "_clock", "_plan", "_show")

    def __init__(
        self,
        plan: RunPlan,
        call: ToolCall,
        clock: Clock,
        show: Callable[[ToolCall, str], None],
        approver: Approver | None = None,
    ) -> None:
        self._plan = plan
        self._call = call
        self._clock = clock
        self._show = show
        self._approver = approver

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
        return ()

    @property
    def settings(self) -> ToolSettings:
        return self._plan.settings

    async def ask(self, ask: Ask) -> Told:
        if self._approver is None:
            return Told(None, "nobody can be asked here")
        return await self._approver.ask(ask)

    def now(self) -> int:
        return self._clock.now()

    def update(self, partial: str) -> None:
        self._show(self._call, partial)
