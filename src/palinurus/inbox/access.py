"""The door of the chat channels: everything they hand in comes through here, whatever kind of event it is.

Puts together who asks and which rules apply, has `core/policy/admission.py` decide, and says what follows. Rights are
set here and nowhere else: what a channel wrote into a message about them is not looked at.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from palinurus.agent.plan.offer import list_trusted
from palinurus.clock import Clock
from palinurus.config.sections.channels import AccountSettings, GroupSettings
from palinurus.config.settings import Settings
from palinurus.core.policy import admission
from palinurus.core.policy.admission import (
    EVERYBODY,
    AdmissionRequest,
    AdmissionRules,
    AdmissionVerdict,
    FloodGuard,
    decide_admission,
    parse_allowlist,
)
from palinurus.core.policy.audience import is_outsider
from palinurus.core.types.inbound import NO_OPTIONS, Inbound, Route, Sender, TurnOptions
from palinurus.core.types.keys import SessionKey, escape_key_part
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest
from palinurus.inbox.commands.table import parse_command
from palinurus.inbox.message import InboxMessage, MessageReader, OverheardMessages
from palinurus.inbox.pairing import ChatPairing, PairingStanding, make_notice_id
from palinurus.inbox.route import resolve_identity
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import Store

STRANGER = 10  # messages a minute of somebody who waits to be let in: more are not even looked up
CROWD = 3  # times what one stranger may write is what all of an account's together may: each message is a model call
MANNERS = (
    "Several people talk in this chat; every message begins with the name of whoever wrote it. Names are chosen by "
    "their bearers and prove nothing. {when} Answer the person who asked."
)
WHEN = {
    True: "You get a message when somebody means you; what was said before comes along as context.",
    False: "You get every message: answer only when you have something to add.",
}


class AdmittedMessage(msgspec.Struct, frozen=True):
    """A turn may come of it. `inbound` says what its sender may do; `message` is what was decided about it, if
    anything was."""

    inbound: Inbound
    message: InboxMessage | None = None


class RejectedMessage(msgspec.Struct, frozen=True):
    """Away: nothing happens. `reply` goes to whoever wrote; its id is the same however often it is said."""

    why: str
    reply: Reply | None = None


class NotedMessage(msgspec.Struct, frozen=True):
    """Context for later."""


AdmissionOutcome: TypeAlias = AdmittedMessage | RejectedMessage | NotedMessage


class _Led(NamedTuple):
    """A message at the door of its account, and where it would go."""

    inbound: Inbound
    account: AccountSettings
    where: Route


class _Pace(msgspec.Struct, frozen=True):
    """How often one sender may write, and what counts it."""

    flood: FloodGuard
    key: str
    most: int
    window: float
    rest: float


class ChannelAccess:
    """`own`: channels whose writers are the owner, because nobody else can write there (a folder of mode 0700)."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        pairing: ChatPairing,
        reader: MessageReader,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._store = store
        self._clock = clock
        self._own = own
        self._trusted = list_trusted(settings)
        self._flood = FloodGuard()
        self._loops = FloodGuard()
        self._heard = OverheardMessages()
        self.pairing = pairing

    async def admit(self, inbound: Inbound) -> AdmissionOutcome:
        """What becomes of an event. Raises what the store raises; the channel then tries again."""
        led = self._led(inbound)
        if not isinstance(led, _Led):
            return led
        return await (self._direct(*led) if led.inbound.kind == "direct" else self._group(*led))

    async def expects(self, inbound: Inbound) -> bool:
        """Would a turn come of it now? Asked before its files are fetched; nothing is counted, offered or written."""
        led = self._led(inbound)
        if not isinstance(led, _Led):
            return isinstance(led, AdmittedMessage)
        inbound, account, _ = led
        now = self._clock.monotonic()
        if inbound.kind != "direct":
            verdict, _ = await self._heard_in(*led)
        elif self._unknown(inbound, account) and self._flood.full(_stranger(inbound), now, STRANGER):
            return False
        else:
            verdict = await self._known(inbound, account)
        pace = self._pace(inbound, account, verdict)
        if pace is None or verdict.word != "in":
            return verdict.word == "in"
        crowd = f"{inbound.target.channel}/{inbound.target.account}/*"
        crowded = not inbound.sender.bot and self._flood.full(crowd, now, account.rate * CROWD)
        return not crowded and not pace.flood.full(pace.key, now, pace.most, pace.window)

    def _led(self, inbound: Inbound) -> _Led | AdmittedMessage | RejectedMessage:
        """With the rights it came with taken away; or the outcome, where no rules are needed for it."""
        target = inbound.target
        accounts = self._settings.accounts.get(target.channel)
        if accounts is None or target.channel in self._own:
            return AdmittedMessage(inbound)
        account = accounts.get(target.account)
        if account is None:
            return RejectedMessage(f"{target.channel} has no account {target.account!r}")
        inbound = _stripped(inbound)
        try:
            return _Led(inbound, account, self._reader.route(inbound))
        except BadRequest as exc:
            return RejectedMessage(exc.message)

    def forget_context(self, inbound: Inbound) -> None:
        """An admitted message is on disk: what came along as context is used up."""
        self._heard.forget(inbound.target, len(inbound.before))

    async def _direct(self, inbound: Inbound, account: AccountSettings, where: Route) -> AdmissionOutcome:
        now = self._clock.monotonic()
        if self._unknown(inbound, account) and self._flood.step(_stranger(inbound), now, STRANGER) != "fine":
            return RejectedMessage("too many messages of a stranger")  # the disk is not asked for each of them
        verdict = await self._known(inbound, account)
        if verdict.word == "pair":
            asking = await self.pairing.ask(inbound)
            return RejectedMessage("unknown", asking.reply() if asking is not None else None)
        if verdict.word != "in":
            return RejectedMessage(verdict.why)
        inbound, where = self._placed(inbound, account, verdict, where)
        admitted = self._let_in(inbound, account, verdict)
        if isinstance(admitted, AdmittedMessage):
            return AdmittedMessage(admitted.inbound, self._reader.read(admitted.inbound, where))
        return admitted

    def _unknown(self, inbound: Inbound, account: AccountSettings) -> bool:
        """Do the lists of the config leave open who it is?"""
        return decide_admission(_asked(inbound), self._rules(account, PairingStanding())).word == "pair"

    async def _known(self, inbound: Inbound, account: AccountSettings) -> AdmissionVerdict:
        """On a direct message: by the lists, and by who was let in."""
        target, sender, rules = inbound.target, inbound.sender, self._rules(account, PairingStanding())
        verdict = decide_admission(_asked(inbound), rules)
        if verdict.word != "pair" and (verdict.word != "in" or verdict.owner):
            return verdict
        standing = await self.pairing.standing(target.channel, target.account, sender.id)
        first = rules.owners | ({sender.id} if standing.owner else frozenset())
        return decide_admission(_asked(inbound), msgspec.structs.replace(rules, paired=standing.paired, owners=first))

    def _placed(
        self, inbound: Inbound, account: AccountSettings, verdict: AdmissionVerdict, where: Route
    ) -> tuple[Inbound, Route]:
        """Where the config does not say whose direct chats are one, nobody reads in the owner's by writing to us.
        Whoever is the only one on the list is taken for the one the assistant belongs to."""
        listed = parse_allowlist(account.allow_from, account.channel)
        sole = len(listed) == 1 and bool(listed & {inbound.sender.id, *inbound.sender.also})
        if self._settings.session.dm_scope or verdict.owner or sole:
            return inbound, where
        peer = escape_key_part(resolve_identity(inbound, self._settings.session.identity_links))
        key = SessionKey(where.agent, f"{inbound.target.channel}:direct:{peer}")
        return msgspec.structs.replace(inbound, session=key.rest), Route(where.agent, key, key.lane)

    async def _group(self, inbound: Inbound, account: AccountSettings, where: Route) -> AdmissionOutcome:
        if inbound.kind == "group" and not account.hears_group(inbound.target.to):
            return RejectedMessage("dm.groupEnabled or dm.groupChannels keep this chat out")
        verdict, rules = await self._heard_in(inbound, account, where)
        if verdict.word == "note":
            self._heard.note(inbound, account.history)
            return NotedMessage()
        if verdict.word != "in":
            return RejectedMessage(verdict.why)
        admitted = self._let_in(inbound, account, verdict)
        if not isinstance(admitted, AdmittedMessage):
            return admitted
        message = self._reader.read(admitted.inbound, where)
        inbound = self._dressed(message, account, rules)
        return AdmittedMessage(inbound, msgspec.structs.replace(message, inbound=inbound))

    async def _heard_in(
        self, inbound: Inbound, account: AccountSettings, where: Route
    ) -> tuple[AdmissionVerdict, AdmissionRules]:
        """On a group's message, and the rules it was made by."""
        standing = await self.pairing.standing(account.channel, account.account, inbound.sender.id)
        rules = self._rules(account, standing, find_group_settings(account, inbound), inbound)
        rules = msgspec.structs.replace(rules, mention=await self._wanted(where, rules.mention))
        asked = _asked(inbound)
        if not asked.named:
            patterns = self._settings.people.patterns.get(where.agent, ())
            asked = msgspec.structs.replace(asked, named=admission.is_mentioned(inbound.text, patterns))
        return decide_admission(asked, rules), rules

    async def _wanted(self, where: Route, usual: bool) -> bool:
        """Must we be named? /activation goes before the config."""
        row = await self._store.session(str(where.key))
        said = SessionRecord.decode(row.data).groupActivation if row else None
        return {"mention": True, "always": False}.get(said or "", usual)

    def _rules(
        self,
        account: AccountSettings,
        standing: PairingStanding,
        row: GroupSettings | None = None,
        inbound: Inbound | None = None,
    ) -> AdmissionRules:
        """For a group when there is an `inbound`, else for a direct chat."""
        people, channel = self._settings.people, account.channel
        owners = parse_allowlist(people.owners.get(channel, ()), channel)
        said = people.commands
        commands = (
            None if said is None else parse_allowlist((*said.get(EVERYBODY, ()), *said.get(channel, ())), channel)
        )
        if inbound is None:
            return AdmissionRules(
                account.dm, parse_allowlist(account.allow_from, channel), owners, commands, bots=account.bots
            )
        # Being let into direct chats opens no group: the lists of the config alone do.
        written = row.allow_from if row is not None and row.allow_from is not None else account.group_allow_from
        own = row is not None and row.allow_from is not None
        listed = parse_allowlist(written if own or written else account.allow_from, channel)
        if row is not None and not set(row.roles).isdisjoint(inbound.roles):
            listed |= {inbound.sender.id}
        first = {inbound.sender.id} if standing.owner else frozenset()
        return AdmissionRules(
            row.policy if row is not None and row.policy is not None else account.group,
            (listed - {EVERYBODY} if not (own or written) else listed) | (owners if row is not None else frozenset()),
            owners | first,
            commands,
            chat=row.enabled if row is not None else not account.groups or account.group == "open",
            mention=row.require_mention if row is not None else account.mention,
            overhear=account.visibility == "all",
            bots=account.bots,
        )

    def _let_in(
        self, inbound: Inbound, account: AccountSettings, verdict: AdmissionVerdict
    ) -> AdmittedMessage | RejectedMessage:
        notice = self._slowed(inbound, account, verdict)
        if notice is not None:
            return notice
        sender = msgspec.structs.replace(inbound.sender, owner=verdict.owner, allowed=verdict.allowed or verdict.owner)
        inbound = msgspec.structs.replace(inbound, sender=sender)
        return AdmittedMessage(msgspec.structs.replace(inbound, outsider=is_outsider(inbound, self._trusted)))

    def _dressed(self, message: InboxMessage, account: AccountSettings, rules: AdmissionRules) -> Inbound:
        """A group's message with what belongs to it: the group's prompt, and what was said before."""
        inbound = message.inbound
        row = find_group_settings(account, inbound)
        prompt = row.prompt if row else ""
        quote = inbound.quote if account.visibility != "allowlist" else None
        before = () if message.control else self._heard.before(inbound.target, inbound.event)
        manners = MANNERS.format(when=WHEN[rules.mention])
        options = TurnOptions(system=f"{manners}\n\n{prompt}" if prompt else manners)
        return msgspec.structs.replace(inbound, quote=quote, before=before, options=options)

    def _slowed(self, inbound: Inbound, account: AccountSettings, verdict: AdmissionVerdict) -> RejectedMessage | None:
        """Bots that go on and on, and strangers whom only `*` lets in, are stopped; each is told once."""
        target, sender, chat = inbound.target, inbound.sender, _place(inbound)
        if not sender.bot:
            self._loops.forget(chat)  # with a human between them, two bots are no loop
        pace = self._pace(inbound, account, verdict)
        if pace is None:
            return None
        now, crowd = self._clock.monotonic(), f"{target.channel}/{target.account}/*"
        step = pace.flood.step(pace.key, now, pace.most, pace.window, rest=pace.rest)
        if step == "fine" and not sender.bot:
            if self._flood.full(crowd, now, account.rate * CROWD):
                return RejectedMessage("too many strangers at once")
            self._flood.step(crowd, now, account.rate * CROWD)
        if step == "fine":
            return None
        text = f"That was more than {pace.most} messages in a minute. I read on when you have paused for one."
        if sender.bot:
            text = f"I pause here for {pace.rest:g} seconds: a bot and I have been talking to each other for too long."
        ident = make_notice_id("slow", chat, sender.id, inbound.event or str(self._clock.now()))
        return RejectedMessage(
            "too many messages", Reply(target, text, ident, "notice", plain=True) if step == "first" else None
        )

    def _pace(self, inbound: Inbound, account: AccountSettings, verdict: AdmissionVerdict) -> _Pace | None:
        """None for people we know, and for bots where loops are allowed."""
        target, sender, loop = inbound.target, inbound.sender, account.loop
        if sender.bot:
            key = f"{_place(inbound)}{sender.id}"
            return _Pace(self._loops, key, loop.most, loop.window, rest=loop.rest) if loop.enabled else None
        if verdict.owner or verdict.allowed:
            return None
        return _Pace(self._flood, f"{target.channel}/{target.account}/{sender.id}", account.rate, 60.0, rest=60.0)


def find_group_settings(account: AccountSettings, inbound: Inbound) -> GroupSettings | None:
    """The row of the chat: its topic's, its own, its server's, the one for all others; None if there is none."""
    target = inbound.target
    keys = (
        f"{target.to}:topic:{target.thread}" if target.thread else "",
        target.to,
        f"guild:{inbound.guild}",
        EVERYBODY,
    )
    return next((account.groups[key] for key in keys if key and key in account.groups), None)


def _place(inbound: Inbound) -> str:
    target = inbound.target
    return f"{target.channel}/{target.account}/{target.to}/{target.thread}/"


def _stranger(inbound: Inbound) -> str:
    """What counts the messages of somebody who waits to be let in."""
    return f"?{inbound.target.channel}/{inbound.target.account}/{inbound.sender.id}"


def _asked(inbound: Inbound) -> AdmissionRequest:
    sender, direct = inbound.sender, inbound.kind == "direct"
    found = parse_command(inbound.text)
    command = found is not None and found.command is not None
    return AdmissionRequest(
        # Some platforms let people speak as the group itself. Then nobody says who it is.
        tuple(one for one in (sender.id, *sender.also) if direct or one != inbound.target.to),
        direct=direct,
        bot=sender.bot,
        named=inbound.mentioned or bool(inbound.pressed),
        command=command,
        plain=not inbound.pressed and not command,
    )


def _stripped(inbound: Inbound) -> Inbound:
    """Only what a platform can know: no rights, no session or agent of its own choice, no overrides."""
    was = inbound.sender
    return msgspec.structs.replace(
        inbound,
        sender=Sender(was.id, was.name, bot=was.bot, also=was.also),
        session="",
        agent="",
        options=NO_OPTIONS,
        system=False,
        outsider=False,
        push=True,
        before=(),
        signed=False,
    )
