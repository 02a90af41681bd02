"""Who speaks for a run: in blocks where the channel wants them, with files of the agent's workspace only."""

from __future__ import annotations

from collections.abc import Callable

from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.outbound import Show, Speaker
from palinurus.inbox.route import route
from palinurus.outbox.beat import OPTION, Quiet
from palinurus.outbox.blocks import Blocks
from palinurus.plugins.hooks import Hooks


def speaker(settings: Settings, hooks: Hooks) -> Callable[[Inbound, str, Callable[[], Show]], Speaker]:
    """A maker of speakers: (message, inbox id, how much to show) -> the run's own."""

    def speak(inbound: Inbound, item: str, show: Callable[[], Show]) -> Speaker:
        where = route(inbound, settings)
        agent = settings.agents.get(where.agent if isinstance(where, Route) else settings.default_agent)
        wanted = settings.channels.get(inbound.target.channel, {}).get("blockStreaming")
        # Telegram follows the default; any other channel must ask for blocks itself.
        telegram = inbound.target.channel == "telegram"
        on = bool(wanted) if wanted is not None else telegram and settings.blocks_on
        session = str(where.key) if isinstance(where, Route) else ""
        beat = inbound.options.get(OPTION) if inbound.system else None
        speaks = Blocks(
            inbound,
            item,
            show,
            settings.blocks if on and beat is None else None,
            roots=(agent.workspace,) if agent else (),
            trace=lambda: hooks.traced(session),
        )
        return speaks if beat is None else Quiet(speaks, beat)

    return speak
