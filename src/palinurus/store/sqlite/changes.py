"""The life of messages, reply parts, sessions and small records, as operations on their tables. Each function runs
inside the writer's transaction. Reading is in `rows`.

Knows the tables; knows nothing of threads, files (the journal has them) or what a body means.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from palinurus import crashpoints
from palinurus.store import port
from palinurus.store.sqlite import rows, schema
from palinurus.store.sqlite.writer import StoreTransaction

_BUSY = (
    "SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND state = 'running')"
    " OR EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND state = 'queued')"
)
_ACCEPT = (
    "INSERT INTO inbox (id, dedupe, session, lane, body, at, state, attempts, fence, claimed)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (dedupe) DO NOTHING"
)
_NEXT = (
    "SELECT seq, id, session, lane, body, at, attempts + 1, fence + 1 FROM inbox AS q"
    " WHERE state = 'queued' AND lane = ?"
    " AND NOT EXISTS (SELECT 1 FROM inbox AS r WHERE r.session = q.session AND r.state = 'running')"
    " AND session NOT IN (SELECT value FROM json_each(?))"
    " AND (? OR EXISTS (SELECT 1 FROM json_each(?) WHERE"
    " substr(session, CASE lane WHEN 'control' THEN instr(session, ':') + 1 ELSE 1 END, length(value)) = value))"
    " AND NOT EXISTS (SELECT 1 FROM inbox AS e WHERE e.session = q.session AND e.state = 'queued' AND e.seq < q.seq)"
    " ORDER BY seq LIMIT ?"
)
_HELD = "id = ? AND state = 'running' AND fence = ?"
_OPEN = "id = ? AND state IN ('pending', 'sending')"


def accept_item(tx: StoreTransaction, item: port.InboxItem, claim: bool, limit: int | None) -> port.Acceptance:
    """Insert, and claim if wanted and the session is free. A known dedupe changes nothing. Raises SessionFull,
    SlotTaken."""
    tx.before.append("accept.before")
    tx.after.append("accept.after")
    take = claim and not tx.conn.execute(_BUSY, (item.session,)).fetchone()[0]
    state = "running" if take else "queued"
    values = (item.id, item.dedupe, item.session, item.lane, item.body, item.at, state, take, take, tx.now * take)
    if not tx.conn.execute(_ACCEPT, values).rowcount:
        first = tx.conn.execute("SELECT id, state FROM inbox WHERE dedupe = ?", (item.dedupe,)).fetchone()
        return port.Acceptance(first[0], True, first[1])
    if item.slot is not None and not claim_slot(tx, *item.slot):
        raise port.SlotTaken(f"job {item.slot[0]} has fired for {item.slot[1]} before")
    if not take:
        _check_room(tx, item.session, limit)
        tx.tell("queued", item.id, item.session, item.lane)
        return port.Acceptance(item.id, False, "queued")
    tx.step(item.id, tx.now, "claimed", "attempt 1")
    return port.Acceptance(
        item.id,
        False,
        "running",
        port.RunClaim(item.id, item.session, item.lane, item.body, at=item.at, attempts=1, fence=1),
    )


def _check_room(tx: StoreTransaction, session: str, limit: int | None) -> None:
    """With the new one there are at most `limit` that wait. Raises SessionFull: what was inserted is undone."""
    if limit is None:
        return
    count = "SELECT count(*) FROM inbox WHERE session = ? AND state = 'queued'"
    if tx.conn.execute(count, (session,)).fetchone()[0] > limit:
        raise port.SessionFull(f"{limit} messages already wait in this session")


def claim_next(
    tx: StoreTransaction, lane: str, most: int, held: Sequence[str], *, serves: Sequence[str] | None
) -> list[port.RunClaim]:
    """The oldest messages of the lane whose sessions are free and not held, one of each, now running."""
    claims: list[port.RunClaim] = []
    given = (lane, json.dumps(held), serves is None, json.dumps(serves or ()), most)
    for seq, *fields in tx.conn.execute(_NEXT, given).fetchall():
        taken = port.RunClaim(*fields)
        tx.conn.execute(
            "UPDATE inbox SET state = 'running', attempts = ?, fence = ?, claimed = ? WHERE seq = ?",
            (taken.attempts, taken.fence, tx.now, seq),
        )
        tx.step(taken.id, tx.now, "claimed", f"attempt {taken.attempts}")
        tx.tell("taken", taken.id, taken.session)
        claims.append(taken)
    return claims


def list_for_others(
    tx: StoreTransaction, lane: str, sessions: Sequence[str] | None, foreign: frozenset[str]
) -> list[str]:
    """Of these sessions of commands (None: all that wait) those about what another node runs; `foreign` is all that
    others have claimed."""
    if lane != "control" or not foreign:
        return []
    if sessions is None:
        asked = tx.conn.execute("SELECT DISTINCT session FROM inbox WHERE state = 'queued' AND lane = 'control'")
        sessions = [row[0] for row in asked]
    running = tx.conn.execute("SELECT id, session FROM inbox WHERE state = 'running'").fetchall()
    busy = {session for ident, session in running if ident in foreign}
    return [one for one in sessions if not one.startswith("control/stop") and one.partition(":")[2] in busy]


def append_lines(
    tx: StoreTransaction,
    held: port.RunClaim,
    lines: Sequence[port.TranscriptLine],
    absorb: Sequence[str],
    *,
    steps: Sequence[port.TraceStep],
    spent: Sequence[port.UsageRow],
) -> None:
    """Lines, absorbed messages and steps of a running turn. Raises StaleClaim."""
    _check_held(tx, held)
    for ident in absorb:
        done = tx.conn.execute(
            "UPDATE inbox SET state = 'absorbed', absorbed_by = ?, settled = ? WHERE id = ? AND state = 'queued'",
            (held.id, tx.now, ident),
        )
        if not done.rowcount:
            raise port.StaleClaim(f"message {ident} is no longer waiting; it was not absorbed")
        tx.step(ident, tx.now, "absorbed", f"by {held.id}")
        tx.tell("absorbed", ident, held.session, held.id)
    tx.append(list(lines))
    _trace(tx, steps)
    _spend(tx, spent)


def _trace(tx: StoreTransaction, steps: Sequence[port.TraceStep]) -> None:
    for step in steps:
        tx.step(step.item, step.at, step.what, step.detail)


def _spend(tx: StoreTransaction, calls: Sequence[port.UsageRow]) -> None:
    if calls:
        sql = f"INSERT INTO spent ({rows.SPENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        tx.conn.executemany(sql, [msgspec.structs.astuple(call) for call in calls])


def queue_replies(tx: StoreTransaction, held: port.RunClaim, replies: Sequence[port.OutboxRow]) -> None:
    """Replies of a run that is still going; one that was dismissed is not heard any more. Raises StaleClaim."""
    if _check_held(tx, held)[0] is None:
        post_replies(tx, replies)


def settle_turn(tx: StoreTransaction, held: port.RunClaim, end: port.Settlement) -> None:
    """The end of a turn, all of it. Raises StaleClaim."""
    tx.before.append("settle.before")
    tx.after.append("settle.after")
    meant = _check_held(tx, held)
    if meant[0] not in (None, end.outcome):  # it was dismissed: what the run says after that is not heard
        end = msgspec.structs.replace(end, outcome=meant[0], note=meant[1], replies=())
    _trace(tx, end.steps)
    _finish(tx, held.id, end.outcome, end.note or meant[1])
    tx.tell("ended", held.id, held.session, held.lane)
    tx.append(end.lines)
    _spend(tx, end.spent)
    if end.session is not None:
        save_session(tx, end.session)
    if end.touch is not None:
        touch_session(tx, end.touch)
    post_replies(tx, end.replies)


def _finish(tx: StoreTransaction, ident: str, outcome: port.TurnOutcome, note: str) -> None:
    sql = "UPDATE inbox SET state = 'done', outcome = ?, note = ?, settled = ? WHERE id = ?"
    tx.conn.execute(sql, (outcome, note, tx.now, ident))
    tx.step(ident, tx.now, "settled", outcome)


def dismiss_items(tx: StoreTransaction, ends: Sequence[port.Dismissal]) -> port.DismissedMessages:
    """See the port."""
    tx.before.append("dismiss.before")
    tx.after.append("dismiss.after")
    ended, marked = [], []
    for end in ends:
        found = tx.conn.execute("SELECT state, session, lane FROM inbox WHERE id = ?", (end.id,)).fetchone()
        state, session, lane = found or ("", "", "")
        if state == "queued":
            _finish(tx, end.id, end.outcome, end.note)
            tx.tell("ended", end.id, session, lane)
            post_replies(tx, end.replies)
            ended.append(end.id)
        elif state == "running":
            tx.conn.execute("UPDATE inbox SET outcome = ?, note = ? WHERE id = ?", (end.outcome, end.note, end.id))
            if end.silent:
                tx.conn.execute("UPDATE outbox SET state = 'cancelled' WHERE item = ? AND state = 'pending'", (end.id,))
            tx.step(end.id, tx.now, "stopped", end.note)
            tx.tell("stopped", end.id, session, end.note)
            marked.append(end.id)
    return port.DismissedMessages(tuple(ended), tuple(marked))


def stop_session(
    tx: StoreTransaction, session: str, note: str, waiting: str | None, *, only: Sequence[str] | None, silent: bool
) -> port.DismissedMessages:
    """See the port."""
    sql = "SELECT id FROM inbox WHERE session = ? AND state = '{}' ORDER BY seq"  # as the partial indexes have it
    notes = {"running": note} if waiting is None else {"running": note, "queued": waiting}
    found = [(i, said) for state, said in notes.items() for (i,) in tx.conn.execute(sql.format(state), (session,))]
    ends = [port.Dismissal(i, "aborted", said, silent=silent) for i, said in found if only is None or i in only]
    return dismiss_items(tx, ends)


def yield_back(tx: StoreTransaction, held: port.RunClaim) -> None:
    """Queued again, in its old place, the attempt not counted. Raises StaleClaim."""
    _check_held(tx, held)
    tx.conn.execute("UPDATE inbox SET attempts = attempts - 1, claimed = 0 WHERE id = ?", (held.id,))
    _requeue(tx, [held.id], "yielded")


def rearrange_items(tx: StoreTransaction, session: str, ids: Sequence[str]) -> list[str]:
    """See the port."""
    seqs = dict(tx.conn.execute("SELECT id, seq FROM inbox WHERE session = ? AND state = 'queued'", (session,)))
    moved = [ident for ident in dict.fromkeys(ids) if ident in seqs]
    places = list(zip(sorted(seqs[ident] for ident in moved), moved, strict=True))
    for sign in (-1, 1):  # a place is one message's alone: first all of them leave theirs
        tx.conn.executemany("UPDATE inbox SET seq = ? WHERE id = ?", [(sign * seq, ident) for seq, ident in places])
    tx.tell("moved", session, session)
    return [row.id for row in rows.list_waiting(tx.conn, session)]


def requeue_items(tx: StoreTransaction, ids: Sequence[str]) -> list[port.InboxRow]:
    """See the port."""
    _requeue(tx, ids, "nobody ran it")
    return [row for row in rows.list_in_state(tx.conn, "queued") if row.id in ids]


def _requeue(tx: StoreTransaction, ids: Sequence[str], what: str) -> None:
    """Running messages wait again; those that were dismissed end."""
    for row in [row for row in rows.list_in_state(tx.conn, "running") if row.id in ids]:
        if row.outcome is not None:
            _finish(tx, row.id, row.outcome, row.note)
            tx.tell("ended", row.id, row.session, row.lane)
            continue
        tx.conn.execute("UPDATE inbox SET state = 'queued' WHERE id = ?", (row.id,))
        tx.step(row.id, tx.now, what, f"attempt {row.attempts}" if what != "yielded" else "")
        tx.tell("queued", row.id, row.session, row.lane)


def recover_items(tx: StoreTransaction, live: frozenset[str]) -> list[port.InboxRow]:
    """What the last process left: running rows are queued again (not those that others run, `live`), transcript files
    completed. All that waits."""
    left = [row for row in rows.list_in_state(tx.conn, "running") if row.id not in live]
    if left or tx.conn.execute("SELECT EXISTS (SELECT 1 FROM journal)").fetchone()[0]:
        crashpoints.pass_crashpoint("recover.before")
        tx.after.append("recover.after")
        tx.journal.recover(tx.conn)
        _requeue(tx, [row.id for row in left], "interrupted")
    return rows.list_in_state(tx.conn, "queued")


def save_session(tx: StoreTransaction, row: port.SessionRow, expect: bytes | None = port.ANY_RECORD) -> bool:
    """See the port."""
    if expect != port.ANY_RECORD:
        found = rows.find_session(tx.conn, row.key)
        if (found.data if found else None) != expect:
            return False
    tx.conn.execute(
        f"INSERT OR REPLACE INTO sessions ({rows.SESSION}) VALUES (?, ?, ?, ?, ?)", msgspec.structs.astuple(row)
    )
    return True


def touch_session(tx: StoreTransaction, row: port.SessionRow) -> None:
    """What a run adds to its session's row. Meanwhile people may have changed the rest, or begun another session."""
    tx.conn.execute(
        "UPDATE sessions SET updated = max(updated, ?),"
        " data = CAST(json_patch(CAST(data AS TEXT), CAST(? AS TEXT)) AS BLOB)"
        " WHERE key = ? AND session_id = ?",
        (row.updated, row.data, row.key, row.session_id),
    )


def write_lines(tx: StoreTransaction, lines: Sequence[port.TranscriptLine], idle: str) -> None:
    """Lines of no run. Raises StaleClaim if the session `idle` is not."""
    if tx.conn.execute("SELECT 1 FROM inbox WHERE session = ? AND state = 'running'", (idle,)).fetchone():
        raise port.StaleClaim(f"a message of {idle} runs")
    tx.append(list(lines))


def complete_file(tx: StoreTransaction, path: str) -> None:
    """Write and sync what the journal has for `path`. Raises StateUnwritable, and then nothing is forgotten."""
    tx.journal.complete(path, tx.conn)
    tx.lines[:] = [row for row in tx.lines if row[1].path != path]  # written just now


def drop_session(tx: StoreTransaction, key: str, path: str = "") -> None:
    """See the port."""
    tx.before.append("drop.before")
    tx.after.append("drop.after")
    tx.conn.execute("DELETE FROM sessions WHERE key = ?", (key,))
    if path:
        tx.journal.drop(path, tx.conn)
        tx.lines[:] = [row for row in tx.lines if row[1].path != path]


def prune_rows(tx: StoreTransaction, before: int) -> int:
    """Forget what ended before `before`, a bounded number of rows. Returns how many."""
    return sum(tx.conn.execute(sql, {"rows": schema.PRUNED, "before": before}).rowcount for sql in schema.PRUNE)


def claim_slot(tx: StoreTransaction, job: str, due: int) -> bool:
    """True for the first caller of (job, due), for ever False for the others."""
    return bool(tx.conn.execute("INSERT OR IGNORE INTO slots VALUES (?, ?, ?)", (job, due, tx.now)).rowcount)


def _check_held(tx: StoreTransaction, held: port.RunClaim) -> tuple[str | None, str]:
    """How it is to end, if that is decided, and with which note. Raises StaleClaim."""
    found = tx.conn.execute(f"SELECT outcome, note FROM inbox WHERE {_HELD}", (held.id, held.fence)).fetchone()
    if found is None:
        raise _stale(held)
    return found[0], found[1]


def _stale(held: port.RunClaim) -> port.StaleClaim:
    return port.StaleClaim(f"message {held.id} is not held by this run any more (attempt {held.attempts})")


# --- reply parts ---------------------------------------------------------------------------------------------------


def post_replies(tx: StoreTransaction, replies: Sequence[port.OutboxRow]) -> None:
    """Put parts behind those already waiting for their targets; one that was queued before is left as it is."""
    sql = (
        "INSERT INTO outbox (id, item, channel, target, data, at, attempts, state, due)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, 'pending', ?) ON CONFLICT (id) DO NOTHING"
    )
    for r in replies:
        if tx.conn.execute(sql, (r.id, r.item, r.channel, r.target, r.data, r.at, r.due)).rowcount:
            tx.step(r.item, tx.now, "reply queued", _where(r))
            tx.tell("replies", r.channel)


def mark_sending(tx: StoreTransaction, ident: str, now: int, attempts: int | None = None) -> port.OutboxRow:
    """Count the attempt and mark the part. Raises StaleClaim if it is not waiting, or was tried meanwhile."""
    sql = (
        f"UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE {_OPEN} AND attempts = ifnull(?, attempts)"
    )
    done = tx.conn.execute(sql, (ident, attempts))
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


def _changed(tx: StoreTransaction, ident: str, count: int) -> port.OutboxRow:
    reply = rows.find_reply(tx.conn, ident)
    if reply is None:
        raise port.StaleClaim(f"there is no reply {ident}")
    if not count:
        raise port.StaleClaim(f"reply {ident} is not waiting to be sent: it is {reply.state}")
    return reply


def _where(reply: port.OutboxRow) -> str:
    return f"{reply.channel} {reply.target} {reply.id}"


# --- small records of parts of the program, with a compare before they are replaced ---------------------------------


def put_record(tx: StoreTransaction, kind: str, key: str, data: bytes | None, expect: bytes | None) -> bool:
    """See the port."""
    if expect != port.ANY_RECORD:
        found = rows.find_record(tx.conn, kind, key)
        if (found.data if found else None) != expect:
            return False
    tx.tell("record", kind, detail=key)
    if data is None:
        tx.conn.execute("DELETE FROM kept WHERE kind = ? AND key = ?", (kind, key))
    else:
        tx.conn.execute(
            "INSERT OR REPLACE INTO kept (kind, key, data, at) VALUES (?, ?, ?, ?)", (kind, key, data, tx.now)
        )
    return True
