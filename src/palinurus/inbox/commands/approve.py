"""/approve: what waits for a decision, and the decision. For the owner, and clients that may answer approvals."""

from __future__ import annotations

from palinurus.core.policy import card
from palinurus.core.types.inbound import Inbound
from palinurus.inbox.approvals import AnswerOutcome, ApprovalRow
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall, is_admin

APPROVALS_SCOPE = "operator.approvals"
DECISION_WORDS: dict[str, str] = {
    "once": "allow-once", "allow": "allow-once", "yes": "allow-once", "allow-once": "allow-once",
    "always": "allow-always", "allow-always": "allow-always",
    "deny": "deny", "no": "deny", "reject": "deny",
}  # fmt: skip
_DONE: dict[str, str] = {"allow-once": "Allowed once", "allow-always": "Allowed, now and always", "deny": "Denied"}


async def run_approve(call: CommandCall) -> CommandAnswer:
    """`/approve` lists, `/approve ID DECISION` answers."""
    board = call.desk.board
    if board is None:
        return CommandAnswer("There are no approvals here.")
    if not can_approve(call.inbound):
        return CommandAnswer("Approvals are given by the owner only.")
    words = call.args.split()
    if not words:
        return CommandAnswer(list_questions(await board.pending(), call.desk.clock.now()))
    if len(words) != 2 or words[1].lower() not in DECISION_WORDS:
        return CommandAnswer("Use /approve ID allow-once|allow-always|deny; /approve alone lists what is open.")
    sender = call.inbound.sender
    by = f"{sender.name or sender.id} ({call.inbound.target.channel})"
    return CommandAnswer(
        describe_answer(await board.answer(words[0].strip("[]#"), DECISION_WORDS[words[1].lower()], by))
    )


def can_approve(inbound: Inbound) -> bool:
    """May this sender answer?"""
    return is_admin(inbound) or APPROVALS_SCOPE in inbound.sender.scopes


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
