"""The life of a reply part, as operations on the outbox table. Each runs inside the writer's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.store.port import OutboxRow, StaleClaim
from palinurus.store.sqlite import rows
from palinurus.store.sqlite.writer import StoreTransaction

_OPEN = "id = ? AND state IN ('pending', 'sending')"


def queue_reply(tx: StoreTransaction, reply: OutboxRow) -> None:
    """Put a part behind those already waiting for its target; one that was queued before is left as it is."""
    made = tx.conn.execute(
        "INSERT INTO outbox (id, item, channel, target, data, at, attempts, state, due)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, 'pending', ?) ON CONFLICT (id) DO NOTHING",
        (reply.id, reply.item, reply.channel, reply.target, reply.data, reply.at, reply.due),
    )
    if made.rowcount:
        tx.step(reply.item, tx.now, "reply queued", _where(reply))


def post_replies(tx: StoreTransaction, replies: Sequence[OutboxRow]) -> None:
    """Parts that no run gives."""
    for reply in replies:
        queue_reply(tx, reply)


def mark_sending(tx: StoreTransaction, ident: str, now: int) -> OutboxRow:
    """Count the attempt and mark the part. Raises StaleClaim if it is not waiting."""
    done = tx.conn.execute(f"UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE {_OPEN}", (ident,))
    reply = _changed(tx, ident, done.rowcount)
    tx.step(reply.item, now, "sending", f"{_where(reply)}, attempt {reply.attempts}")
    tx.after.append("outbox.claimed")
    return reply


def mark_delivered(tx: StoreTransaction, ident: str, receipt: str, now: int) -> None:
    """The platform has it. Raises StaleClaim if the part is not waiting."""
    done = tx.conn.execute(f"UPDATE outbox SET state = 'sent', receipt = ?, error = '' WHERE {_OPEN}", (receipt, ident))
    reply = _changed(tx, ident, done.rowcount)
    tx.step(reply.item, now, "sent", f"{_where(reply)}, receipt {receipt}")
    tx.after.append("outbox.receipt")


def mark_undelivered(tx: StoreTransaction, ident: str, error: str, due: int | None) -> None:
    """Try again at `due`, or give up (None). Raises StaleClaim if the part is not waiting."""
    state = "failed" if due is None else "pending"
    done = tx.conn.execute(
        f"UPDATE outbox SET state = ?, error = ?, due = ? WHERE {_OPEN}", (state, error, due or 0, ident)
    )
    reply = _changed(tx, ident, done.rowcount)
    what = "failed" if due is None else "not sent"
    tx.step(reply.item, tx.now, what, f"{_where(reply)}: {error}")


def _changed(tx: StoreTransaction, ident: str, count: int) -> OutboxRow:
    reply = rows.find_reply(tx.conn, ident)
    if reply is None:
        raise StaleClaim(f"there is no reply {ident}")
    if not count:
        raise StaleClaim(f"reply {ident} is not waiting to be sent: it is {reply.state}")
    return reply


def _where(reply: OutboxRow) -> str:
    return f"{reply.channel} {reply.target} {reply.id}"
