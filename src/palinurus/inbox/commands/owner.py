"""What the owner decides in a chat: /approve (also clients that may answer approvals), /pairing, /restart, others."""

from __future__ import annotations

import msgspec

from palinurus.core.policy import card, modes
from palinurus.core.types.caller import APPROVALS
from palinurus.core.types.inbound import Inbound
from palinurus.core.untrusted import clean_label
from palinurus.inbox.commands.command import CommandAnswer, CommandCall, is_internal
from palinurus.inbox.pairing import VALID, PairedPerson, PairingStranger
from palinurus.services.approvals import AnswerOutcome, ApprovalRow
from palinurus.services.wake import AskedRestart, open_restarts

# /activation: whether the agent hears every message of a group, or only those that name it. For the owner.

ACTIVATION_TEXTS: dict[str, str] = {
    "mention": "I answer here when I am named.",
    "always": "I read every message here, and answer when I have something to add.",
}


async def run_activation(call: CommandCall) -> CommandAnswer:
    """`/activation mention|always`; alone it tells which it is."""
    if call.inbound.kind == "direct":
        return CommandAnswer("/activation is for groups; here I read everything.")
    word = call.args.strip().lower()
    if not word:
        return CommandAnswer(
            ACTIVATION_TEXTS.get(call.record.groupActivation or "", "As the configuration says (requireMention).")
        )
    if word not in ACTIVATION_TEXTS:
        return CommandAnswer("Use /activation mention or /activation always.")
    return CommandAnswer(ACTIVATION_TEXTS[word], msgspec.structs.replace(call.record, groupActivation=word))


# /send: whether what a session says goes out. For the owner.

SEND_WORDS: dict[str, str | None] = {"on": "allow", "off": "deny", "inherit": None}
SEND_TEXTS: dict[str | None, str] = {
    "allow": "What I say here is sent.",
    "deny": "What I say here is not sent; I go on reading. /send on ends it.",
    None: "As the configuration says (session.sendPolicy).",
}


async def run_send(call: CommandCall) -> CommandAnswer:
    """`/send on|off|inherit`; alone it tells which it is. Answers of commands are always sent."""
    word = call.args.strip().lower()
    if not word:
        return CommandAnswer(SEND_TEXTS.get(call.record.sendPolicy, SEND_TEXTS[None]))
    if word not in SEND_WORDS:
        return CommandAnswer("Use /send on, /send off or /send inherit.")
    said = SEND_WORDS[word]
    return CommandAnswer(SEND_TEXTS[said], msgspec.structs.replace(call.record, sendPolicy=said))


# /mode: how much a run asks about, or does not do at all. For the owner.


async def run_mode(call: CommandCall) -> CommandAnswer:
    """`/mode plan|ask|default|acceptEdits|full`; alone it tells which it is; `reset`: as configured."""
    word, usual = call.args.strip(), call.agent.permission_mode
    if not word:
        now = modes.parse_mode(call.record.permissionMode) or usual
        rows = [f"{'*' if mode == now else '-'} {mode}: {about}" for mode, about in modes.ABOUT.items()]
        return CommandAnswer("\n".join((f"Permission mode: {now}.", *rows)))
    if word.lower() == "reset":
        return CommandAnswer(
            f"Permission mode: as configured ({usual}).", msgspec.structs.replace(call.record, permissionMode=None)
        )
    mode = modes.parse_mode(word)
    if mode is None:
        return CommandAnswer(f"There is no permission mode {word[:40]!r}. Use /mode {'|'.join(modes.MODES)}.")
    return CommandAnswer(
        f"Permission mode: {mode}; {modes.ABOUT[mode]}.", msgspec.structs.replace(call.record, permissionMode=mode)
    )


# /pairing: who asks to be let in, and letting them in. For the owner.

PAIRING_USAGE = "Use /pairing, /pairing approve CODE, /pairing reject CODE or /pairing revoke CHANNEL:ID."


async def run_pairing(call: CommandCall) -> CommandAnswer:
    """Alone it lists."""
    chats, now = call.program.chats, call.program.clock.now()
    if chats is None:
        return CommandAnswer("Nobody can ask to be let in here.")
    pairing = chats.pairing
    words = call.args.split()
    if not words or words == ["list"]:
        return CommandAnswer(list_people(await pairing.list_waiting(), await pairing.list_paired(), now))
    if len(words) != 2:
        return CommandAnswer(PAIRING_USAGE)
    sender = call.inbound.sender
    by = f"{call.inbound.target.channel}:{sender.id}"
    if words[0] == "approve":
        done = await pairing.approve(words[1], by)
        if isinstance(done, PairedPerson) and (reply := done.reply()) is not None:
            await chats.say(reply)
        return CommandAnswer(describe_approval(done))
    if words[0] == "reject":
        gone = await pairing.reject(words[1])
        return CommandAnswer(f"Nothing changed: {gone}." if isinstance(gone, str) else f"Forgotten: {gone.who}.")
    if words[0] == "revoke":
        return CommandAnswer(describe_revocation(await pairing.revoke(words[1])))
    return CommandAnswer(PAIRING_USAGE)


def list_people(asking: list[PairingStranger], paired: list[PairedPerson], now: int) -> str:
    """Who waits first: they need somebody."""
    lines = [f"{one.code}  {_who(one)} waits, {max(0, one.at + VALID - now) // 60_000} min left" for one in asking]
    lines += [f"{'owner' if one.owner else 'let in'}: {_who(one)}, by {one.by or 'somebody'}" for one in paired]
    return "\n".join(lines) or "Nobody waits, and nobody was let in by a code."


def describe_approval(done: PairedPerson | str) -> str:
    """An approval's fate in words."""
    if isinstance(done, str):
        return f"Nothing changed: {done}."
    more = " As the first one, they are the owner: all commands and approvals are theirs." if done.owner else ""
    return f"Let in: {_who(done)}.{more}"


def describe_revocation(done: PairedPerson | str) -> str:
    """The same for taking it back."""
    return f"Nothing changed: {done}." if isinstance(done, str) else f"Out, from now on: {_who(done)}."


def _who(one: PairingStranger | PairedPerson) -> str:
    name = clean_label(one.name, 60)
    return f"{one.who}, who calls themselves “{name}”" if name else one.who


DECISION_WORDS: dict[str, str] = {
    "once": "allow-once", "allow": "allow-once", "yes": "allow-once", "allow-once": "allow-once",
    "always": "allow-always", "allow-always": "allow-always",
    "deny": "deny", "no": "deny", "reject": "deny",
}  # fmt: skip
_DONE: dict[str, str] = {"allow-once": "Allowed once", "allow-always": "Allowed, now and always", "deny": "Denied"}


async def run_approve(call: CommandCall) -> CommandAnswer:
    """`/approve` lists, `/approve ID DECISION` answers."""
    board = call.program.approvals
    if board is None:
        return CommandAnswer("There are no approvals here.")
    words = call.args.split()
    if not can_approve(call.inbound) and not await _may_help(call, words):
        return CommandAnswer("Approvals are given by the owner only.")
    if not words:
        return CommandAnswer(list_questions(await board.pending(), call.program.clock.now()))
    if len(words) != 2 or words[1].lower() not in DECISION_WORDS:
        return CommandAnswer("Use /approve ID allow-once|allow-always|deny; /approve alone lists what is open.")
    sender = call.inbound.sender
    by = f"{sender.name or sender.id} ({call.inbound.target.channel})"
    return CommandAnswer(
        describe_answer(await board.answer(words[0].strip("[]#"), DECISION_WORDS[words[1].lower()], by))
    )


async def _may_help(call: CommandCall, words: list[str]) -> bool:
    """May this sender answer this one question: does execApprovals name them, is it a question that it is about, and
    is it only about this once? What is allowed always is the owner's to say."""
    target, board = call.inbound.target, call.program.approvals
    rules = call.program.settings.account(target.channel, target.account).approvals
    if board is None or len(words) != 2 or call.inbound.sender.id not in rules.approvers:
        return False
    ident, wanted = words[0].strip("[]#"), DECISION_WORDS.get(words[1].lower())
    found = [row for row in await board.pending() if row.id.startswith(ident)]
    about = len(found) == 1 and rules.covers(found[0].ask.agent, found[0].ask.session)
    return about and wanted in ("allow-once", "deny")


def can_approve(inbound: Inbound) -> bool:
    """May this sender answer?"""
    return inbound.sender.may(APPROVALS)


def describe_answer(answered: AnswerOutcome) -> str:
    """An answer's fate in words."""
    if answered.problem:
        return f"Nothing changed: {answered.problem}."
    row = answered.row
    assert row is not None, "an answer without a problem has its row"
    later = "" if row.state == "used" else " The run that asked is gone; this serves its next try."
    note = f" But {answered.note}." if answered.note else ""
    return f"{_DONE[row.decision or 'deny']} [{row.id[:8]}]: {_brief(row)}{later}{note}"


def list_questions(rows: list[ApprovalRow], now: int) -> str:
    """Open questions, each with what it takes to answer."""
    if not rows:
        return "Nothing waits for an approval."
    return "\n\n".join(f"{card.write_approval_card(row.ask, row.id)}\n({_left(row, now)} left)" for row in rows)


def _left(row: ApprovalRow, now: int) -> str:
    return f"{max(0, row.expires - now) // 60_000} min"


def _brief(row: ApprovalRow) -> str:
    text = card.show_line(row.ask.command.replace("\n", "\\n") or row.ask.title)
    return text if len(text) <= 120 else f"{text[:119]}…"


# /record: whether runs of this session are put on tape (docs/replay.md).

RECORD = {"on": True, "off": False, "default": None}


async def run_record(call: CommandCall) -> CommandAnswer:
    """/record [on|off|default|status]: of this session."""
    word, tapes = call.args.strip().lower() or "status", call.program.tapes
    if tapes is None or word not in (*RECORD, "status"):
        return CommandAnswer("Use one of: /record on, off, default, status.")
    key = str(call.key)
    if word in RECORD:
        await tapes.choose(key, RECORD[word])
    state = "recorded" if tapes.is_recorded(key) else "not recorded"
    why = "" if key in tapes.sessions else f" ({tapes.describe()['why']})"
    return CommandAnswer(f"Runs of this session are {state}{why}. pal replay plays them again.")


# /restart: the gateway begins again and says so where it was asked. For the owner.

RESTART_SECONDS = 2.0


async def run_restart(call: CommandCall) -> CommandAnswer:
    """Noted before anything ends, so that "back" is said after a kill, too. Run again after a crash it only answers."""
    program = call.program
    if not program.settings.commands.restart:
        return CommandAnswer("Restarting is switched off (commands.restart).")
    if program.restart is None:
        return CommandAnswer("Nothing here could start me again: this is no gateway. `pal gateway` is one.")
    chat = "" if is_internal(call.inbound) else "I say so here when I am back."
    asked = AskedRestart(call.inbound.target, quiet=not chat)
    if not await open_restarts(program.store).swap(call.claim.id, None, asked):
        return CommandAnswer("Started again.")
    program.restart(RESTART_SECONDS)
    return CommandAnswer(f"Starting again: what runs may end first. {chat or 'This page or terminal connects again.'}")
