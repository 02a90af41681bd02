"""Events -> replies. Pure: fed with a run's events, closed when the turn ends."""

from __future__ import annotations

from collections.abc import Callable

from palinurus.core.stream.silent import silent
from palinurus.core.types.events import AgentEnd, End, Event
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import Assistant
from palinurus.core.types.outbound import Reply, ReplyKind, Show

NOTICES: dict[End, str] = {
    "aborted": "⚙️ Agent was aborted.",
    "timeout": "⚠️ The run took too long and was stopped.",
    "max_turns": "⚠️ The run was stopped: {why}.",
    "tool_loop": "⚠️ The run was stopped: {why}.",
    "error": "⚠️ No answer: {why}.",
}


class Blocks:
    """The speaker of one run. With `push` off nobody is spoken to: the client reads the events itself."""

    def __init__(self, inbound: Inbound, item: str, show: Callable[[], Show] = Show) -> None:
        self._show = show
        self._inbound = inbound
        self._item = item
        self._replies: list[Reply] = []

    def feed(self, event: Event) -> tuple[Reply, ...]:
        if isinstance(event, AgentEnd):
            self._end(event)
        return ()

    def close(self) -> tuple[Reply, ...]:
        return tuple(self._replies) if self._inbound.push else ()

    def _end(self, event: AgentEnd) -> None:
        texts = [m.text.strip() for m in event.messages if isinstance(m, Assistant)]
        kept = [t for t in texts if t]
        if kept and not silent(kept[-1]):
            self._say("\n\n".join(kept), "final")
        notice = NOTICES.get(event.end)
        if notice:
            why = event.failure.message if event.failure else event.end
            self._say(notice.format(why=why.rstrip(".")), "notice")

    def _say(self, text: str, kind: ReplyKind) -> None:
        self._replies.append(
            Reply(
                self._inbound.target,
                text,
                f"{self._item}.{len(self._replies)}",
                kind,
                self._inbound.reply_to,
            )
        )
