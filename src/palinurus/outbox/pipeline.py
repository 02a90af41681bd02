"""Who speaks for a run: in blocks where the channel wants them, in messages it takes, with files of the agent's
workspace only; and what people see meanwhile (drafts, typing, a reaction).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping

import msgspec

from palinurus.agent.plan.sandbox import allow_files
from palinurus.clock import Clock
from palinurus.config.sections.audio import AutoSpeech
from palinurus.config.sections.channels import AccountSettings, Streaming
from palinurus.config.sections.delivery import PresenceSettings
from palinurus.config.settings import Settings
from palinurus.core.speech import SpokenText
from palinurus.core.stream.marks import is_web_address
from palinurus.core.stream.silent import HEARTBEAT_TOKEN
from palinurus.core.types.channel import Channel
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.outbound import Reply, ReplyBuilder, RunVisibility
from palinurus.late import load_part
from palinurus.outbox.cards import ApprovalCards
from palinurus.outbox.deliver import DeliveryAids
from palinurus.outbox.drafts import LiveDrafts
from palinurus.outbox.pace import BlockPacer, PaceRules, sweep_joined_records
from palinurus.outbox.parts import ChannelFit, FittingSpeaker, cut_text
from palinurus.outbox.presence import RunPresence
from palinurus.outbox.speakers import DraftPreview, HeartbeatSpeaker, LiveSpeaker, PrefixedSpeaker
from palinurus.outbox.voice import ReplyVoicer, VoicedSpeaker
from palinurus.plugins.hooks import Hooks
from palinurus.services.approvals import ApprovalBoard, ApprovalRow
from palinurus.services.speech import AgentVoices
from palinurus.store.port import Store
from palinurus.taping import ask_taped_now
from palinurus.tasks import TaskSet

TELEGRAM = "telegram"  # follows the defaults for blocks and drafts; any other channel must ask for them itself

log = logging.getLogger(__name__)


class ReplyPipeline:
    """All that runs and the outbox share. `speaker` is for turns, `fitted` for replies that come without a run."""

    def __init__(
        self,
        settings: Settings,
        hooks: Hooks,
        store: Store,
        channels: Mapping[str, Channel],
        clock: Clock,
        voices: AgentVoices | None = None,
    ) -> None:
        self._settings = settings
        self._hooks = hooks
        self._store = store
        self._channels = channels
        self._clock = clock
        self._tasks = TaskSet("a sign of life")
        self.drafts = LiveDrafts(store, channels, clock)
        self.pace = BlockPacer(clock, random.random)
        self.cards = ApprovalCards(store, channels, self._tasks, lambda target: self._account(target).approvals.cleanup)
        self._voices = voices
        voice = ReplyVoicer(voices).voice if voices is not None else None
        self.aids = DeliveryAids(
            self.drafts, self.pace, self.cards.on_shown, lambda target: self._account(target).retry, voice=voice
        )
        self.speaks_for: Callable[[str], bool] = lambda channel: True  # is it this node that sends its replies?

    def speaker(self, inbound: Inbound, item: str, key: SessionKey, show: Callable[[], RunVisibility]) -> ReplyBuilder:
        """The run's own; (message, inbox id, its session, how much to show)."""
        settings, target = self._settings, inbound.target
        if inbound.push and not settings.session.send_policy.allows(
            str(key), target.channel, inbound.kind, show().send
        ):
            log.info("what %s says is not sent: session.sendPolicy or /send", key)
            return _Silent()
        name, agent = key.agent, settings.agents.get(key.agent)
        beat = inbound.options.heartbeat if inbound.system else None
        channel, account = self._channels.get(target.channel), self._account(target)
        blocks = self._blocks(account) and beat is None
        fit = self._fit(target)
        said: ReplyBuilder = load_part("speaker")(
            inbound,
            item,
            show,
            settings.delivery.block_sizes(account, fit.most if fit else 4000) if blocks else None,
            files=allow_files(agent, inbound.shared) if agent and not inbound.outsider else is_web_address,
            trace=lambda: ask_taped_now("trace", lambda: self._hooks.list_trace(str(key)), tuple[str, ...]),
            cards=account.approvals.covers(name, str(key)),
        )
        prefix = settings.delivery.prefix if account.prefix is None else account.prefix
        if channel is not None and inbound.push and beat is None:  # inside the prefix, which nobody wants to hear
            said = self._voiced(said, inbound, item, key, show=show)
        if prefix and agent is not None:
            said = PrefixedSpeaker(said, prefix, agent.name)
        if beat is not None:
            said = HeartbeatSpeaker(said, beat, Reply(target, HEARTBEAT_TOKEN, f"{item}.ok"))
            said = self._voiced(said, inbound, item, key, show=show)
        if channel is None or fit is None or not inbound.push:
            return said
        parted = FittingSpeaker(said, fit, "" if inbound.system or inbound.pressed else inbound.event)
        if blocks:
            self.pace.begin(target, self._rules(account, name, fit.most))
        staged = LiveSpeaker(parted, inbound, item, self.drafts, pace=self.pace)
        # A draft becomes the answer where the answer is sent: another node could only add one below it. None shows what
        # hooks have yet to judge.
        judged = self._hooks.has("message_sending")
        if beat is None and not judged and "edit" in channel.abilities.acts and self.speaks_for(target.channel):
            mode: Streaming = "off" if blocks else self._streaming(account)
            staged.preview = DraftPreview(mode, show)
            room = msgspec.structs.replace(fit, newline=False)
            staged.fit = lambda text: cut_text(text, room)[0] if text else ""
        if not inbound.system:
            signs = self._signs(account, name)
            staged.presence = RunPresence(channel, inbound, signs, self._clock, tasks=self._tasks)
        return staged

    def _voiced(
        self, said: ReplyBuilder, inbound: Inbound, item: str, key: SessionKey, show: Callable[[], RunVisibility]
    ) -> ReplyBuilder:
        """With what is read aloud; marks of speech go out of the text in any case."""
        voices = self._voices

        def mode() -> AutoSpeech:
            return voices.find_mode(key.agent, show().speech) if voices is not None else "off"

        made = VoicedSpeaker(said, inbound, item, SpokenText(agent=key.agent, session=str(key)), mode=mode)
        if voices is not None and key.agent in self._settings.agents:
            speech = voices.find_settings(key.agent)
            made.every = speech.mode == "all"
            made.words = speech.overrides.enabled and speech.overrides.text
        return made

    def fit_replies(self, inbound: Inbound, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Replies as messages that their channel takes; those to a quoted message answer who quoted it instead."""
        fit = self._fit(inbound.target)
        if fit is None:
            return replies
        own = tuple(
            msgspec.structs.replace(reply, reply_to="") if reply.reply_to == inbound.reply_to else reply
            for reply in replies
        )
        return FittingSpeaker(_Silent(), fit, "" if inbound.system or inbound.pressed else inbound.event).fit_replies(
            own
        )

    async def load(self, board: ApprovalBoard, *, take_up: bool = True) -> None:
        """Take up what a crash left on people's screens, if that is ours to do; hear of decisions from now on."""
        board.watch(self._resolved)
        if not take_up:
            return
        await sweep_joined_records(self._store, self._clock.now())
        await self.drafts.load()
        await self.cards.load({row.id for row in await board.pending()})

    def _resolved(self, what: str, row: ApprovalRow) -> None:
        if what == "resolved":
            by = f" by {row.by}" if row.decision and row.by else ""
            self.cards.on_decided(row.id, f"{row.decision or row.by or row.state}{by}")

    async def close(self) -> None:
        """After the last run."""
        await self._tasks.close()
        await self.drafts.close()

    def _account(self, target: Target) -> AccountSettings:
        return self._settings.account(target.channel, target.account)

    def _fit(self, target: Target) -> ChannelFit | None:
        channel, account = self._channels.get(target.channel), self._account(target)
        if channel is None:
            return None
        return ChannelFit.of(channel.abilities, account)

    def _blocks(self, account: AccountSettings) -> bool:
        if account.blocks is not None:
            return account.blocks
        return account.channel == TELEGRAM and self._settings.delivery.blocks_on

    def _streaming(self, account: AccountSettings) -> Streaming:
        said = account.own.get("streaming") is not None
        return "partial" if account.channel == TELEGRAM and not said else account.streaming

    def _signs(self, account: AccountSettings, agent: str) -> PresenceSettings:
        delivery = self._settings.delivery
        signs = delivery.presence
        ack = account.ack if "ackReaction" in account.own else signs.ack
        interval = delivery.intervals.get(agent, signs.interval)
        return msgspec.structs.replace(
            signs, typing=delivery.typing.get(agent, signs.typing), interval=interval, ack=ack, working=account.working
        )

    def _rules(self, account: AccountSettings, agent: str, limit: int) -> PaceRules:
        delivery = self._settings.delivery
        return PaceRules(delivery.coalesce_sizes(account, limit), delivery.humans.get(agent, delivery.human))


class _Silent:
    """A speaker of nothing."""

    def feed(self, event: object) -> tuple[Reply, ...]:
        return ()

    def close(self) -> tuple[Reply, ...]:
        return ()
