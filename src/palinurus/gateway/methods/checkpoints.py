"""sessions.compaction.*: the points at which a conversation was shortened, and going back to one. changes.*: what runs
changed in their workspaces, and putting it back. learn.*: what the agent would like to remember (both ours)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from palinurus.gateway.context import SessionKeyParams, refuse_busy
from palinurus.gateway.methods.change import create_branch
from palinurus.gateway.methods.tree import append_lines
from palinurus.gateway.rpc import ADMIN, READ, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionSnapshot
from palinurus.late import load_part
from palinurus.sessions.compactions import CompactionCheckpoint, list_checkpoints, make_undo_entry
from palinurus.sessions.entries import to_millis
from palinurus.sessions.transcript import Transcript


class CheckpointParams(SessionKeyParams, frozen=True, kw_only=True):
    checkpoint_id: NonEmpty


async def list_session_checkpoints(call: MethodCall, asked: SessionKeyParams) -> dict[str, Any]:
    """All of a session, newest first."""
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    points = list_checkpoints(transcript.path_to_leaf()) if transcript is not None else []
    return {"ok": True, "key": str(seen.key), "checkpoints": [_shown(seen, point) for point in reversed(points)]}


async def get_checkpoint(call: MethodCall, asked: CheckpointParams) -> dict[str, Any]:
    """One."""
    seen, _, point = await _found(call, asked)
    return {"ok": True, "key": str(seen.key), "checkpoint": _shown(seen, point)}


def _shown(seen: SessionSnapshot, point: CompactionCheckpoint) -> dict[str, Any]:
    entry, told = point.entry, point.details
    session = seen.record.sessionId if seen.record is not None else ""
    made = {
        "checkpointId": entry.id,
        "sessionKey": str(seen.key),
        "sessionId": session,
        "createdAt": to_millis(entry.timestamp),
        "reason": told.get("reason") or "auto-threshold",
        "tokensBefore": entry.tokensBefore,
        "tokensAfter": told.get("tokensAfter"),
        "summary": entry.summary,
        "firstKeptEntryId": entry.firstKeptEntryId,
        "preCompaction": {"sessionId": session, "leafId": point.before},
        "postCompaction": {"sessionId": session, "entryId": entry.id},
        "undone": point.undone,
        "inUse": point.counts,
    }
    return {name: value for name, value in made.items() if value is not None}


async def branch_checkpoint(call: MethodCall, asked: CheckpointParams) -> dict[str, Any]:
    """A new session with the conversation as it was before the checkpoint."""
    seen, transcript, point = await _found(call, asked)
    key, record = await create_branch(call, seen, transcript, point.before)
    return {
        "ok": True,
        "sourceKey": str(seen.key),
        "key": str(key),
        "sessionId": record.sessionId,
        "checkpoint": _shown(seen, point),
        "entry": await call.context.reader.find_row(str(key)),
    }


async def restore_checkpoint(call: MethodCall, asked: CheckpointParams) -> dict[str, Any]:
    """Take the checkpoint back: the model sees again what it stood for. Nothing that was said since is lost."""
    here = call.context
    seen, transcript, point = await _found(call, asked)
    assert seen.record is not None
    key = str(seen.key)
    refuse_busy(call, key)
    if not point.undone:
        undo, reason = make_undo_entry(point.entry.id), "checkpoint-restore"
        await append_lines(call, seen, transcript, lambda now: transcript.add_entry(undo, now), reason=reason)
    made = {"ok": True, "key": key, "sessionId": seen.record.sessionId, "entry": await here.reader.find_row(key)}
    return {**made, "checkpoint": _shown(seen, msgspec.structs.replace(point, undone=True, counts=False))}


async def _found(call: MethodCall, asked: CheckpointParams) -> tuple[SessionSnapshot, Transcript, CompactionCheckpoint]:
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    points = list_checkpoints(transcript.path_to_leaf()) if transcript is not None else []
    point = next((p for p in points if p.entry.id == asked.checkpoint_id), None)
    if transcript is None or point is None:
        raise MethodError(f"checkpoint not found: {asked.checkpoint_id[:64]}")
    return seen, transcript, point


# --- files


class ChangesListParams(MethodParams, frozen=True):
    session_key: NonEmpty | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class ChangesGetParams(MethodParams, frozen=True):
    run: str = ""  # an id or its beginning; "" = the last one that changed something
    session_key: NonEmpty | None = None
    diffs: bool = True


class ChangesUndoParams(MethodParams, frozen=True):
    run: str = ""
    session_key: NonEmpty | None = None
    force: bool = False


async def list_changes(call: MethodCall, asked: ChangesListParams) -> dict[str, Any]:
    """Runs that changed files, the newest first, without what is in them."""
    keeper = _keep(call)
    runs = await keeper.list_runs(asked.session_key or "", asked.limit)
    return {"runs": [await keeper.describe(run, diffs=False) for run in runs]}


async def get_changes(call: MethodCall, asked: ChangesGetParams) -> dict[str, Any]:
    """One run's. What stands in the files is the owner's alone: a workspace holds what was never said."""
    keeper = _keep(call)
    run = await keeper.find(asked.run, asked.session_key or "")
    made: dict[str, Any] = await keeper.describe(run, diffs=asked.diffs and call.client.may(ADMIN))
    return made


async def undo_changes(call: MethodCall, asked: ChangesUndoParams) -> dict[str, Any]:
    """Put files back as they were before a run."""
    return await _restore(call, asked, redo=False)


async def redo_changes(call: MethodCall, asked: ChangesUndoParams) -> dict[str, Any]:
    """Do again what was undone."""
    return await _restore(call, asked, redo=True)


async def _restore(call: MethodCall, asked: ChangesUndoParams, *, redo: bool) -> dict[str, Any]:
    told: dict[str, Any] = await _keep(call).undo(asked.run, asked.session_key or "", redo=redo, force=asked.force)
    call.context.broadcaster.announce_change(told["sessionKey"], "files-redo" if redo else "files-undo")
    return told


def _keep(call: MethodCall) -> Any:
    program = call.program
    return load_part("change-keeper").ChangeKeeper(program.settings, program.store, program.schedules)


# --- what the agent would like to remember


class LearnListParams(MethodParams, frozen=True):
    every: bool = False  # those that were decided, too


class LearnParams(MethodParams, frozen=True):
    id: NonEmpty


class LearnAcceptParams(LearnParams, frozen=True):
    text: str | None = None  # instead of what was proposed


async def list_learnings(call: MethodCall, asked: LearnListParams) -> dict[str, Any]:
    """Proposals, newest first."""
    learn, board = _open_board(call)
    return {"proposals": [learn.describe_proposal(one) for one in await board.list_proposals(every=asked.every)]}


async def look_for_learnings(call: MethodCall, asked: SessionKeyParams) -> dict[str, Any]:
    """Ask the model what this session taught; without a call if nobody said anything since the last time."""
    learn, board = _open_board(call)
    return {"proposals": [learn.describe_proposal(one) for one in await board.look(str(asked.resolve(call)))]}


async def accept_learning(call: MethodCall, asked: LearnAcceptParams) -> dict[str, Any]:
    """Write it, as proposed or as edited."""
    learn, board = _open_board(call)
    told: dict[str, Any] = learn.describe_proposal(await board.accept(asked.id, asked.text))
    return told


async def refuse_learning(call: MethodCall, asked: LearnParams) -> dict[str, Any]:
    """Nothing is written."""
    learn, board = _open_board(call)
    told: dict[str, Any] = learn.describe_proposal(await board.refuse(asked.id))
    return told


async def undo_learning(call: MethodCall, asked: LearnParams) -> dict[str, Any]:
    """The file as it was before it was accepted."""
    learn, board = _open_board(call)
    told: dict[str, Any] = learn.describe_proposal(await board.undo(asked.id))
    return told


def _open_board(call: MethodCall) -> tuple[Any, Any]:
    learn = load_part("command-learn")
    return learn, learn.open_learning(call.program)


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("learn.list", ADMIN, LearnListParams, list_learnings),
    GatewayMethod("learn.look", ADMIN, SessionKeyParams, look_for_learnings),
    GatewayMethod("learn.accept", ADMIN, LearnAcceptParams, accept_learning),
    GatewayMethod("learn.refuse", ADMIN, LearnParams, refuse_learning),
    GatewayMethod("learn.undo", ADMIN, LearnParams, undo_learning),
    GatewayMethod("changes.list", READ, ChangesListParams, list_changes),
    GatewayMethod("changes.get", READ, ChangesGetParams, get_changes),
    GatewayMethod("changes.undo", ADMIN, ChangesUndoParams, undo_changes),
    GatewayMethod("changes.redo", ADMIN, ChangesUndoParams, redo_changes),
    GatewayMethod("sessions.compaction.list", READ, SessionKeyParams, list_session_checkpoints),
    GatewayMethod("sessions.compaction.get", READ, CheckpointParams, get_checkpoint),
    GatewayMethod("sessions.compaction.branch", WRITE, CheckpointParams, branch_checkpoint),
    GatewayMethod("sessions.compaction.restore", ADMIN, CheckpointParams, restore_checkpoint),
)
