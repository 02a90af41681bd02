"""A command that was allowed to run outside the sandbox, in the terminal of the person's editor: there it is seen while
it runs, and can be stopped. Contained commands never come here; an editor's terminal holds nothing.

It is started once: where the editor does not say whether it did, the outcome is unknown and nothing is repeated. The
call waits to the end; nothing goes on in the background there.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping

from palinurus.core.types.editor import EditorAnswer, EditorOrder, EditorPort
from palinurus.core.types.tool import ToolContext, ToolOutput, make_output
from palinurus.tools.commands.guard import ExecPermit

START, ENDING, LONGEST = 15.0, 10.0, 86_400.0  # seconds
BYTES = 256 * 1024  # of output that the editor keeps
TAIL = 2000
UNKNOWN = "{why}: whether the command ran in its terminal, and how it ended, is not known. It is not repeated."


async def run_in_editor(
    editor: EditorPort,
    ctx: ToolContext,
    permit: ExecPermit,
    env: Mapping[str, str],
    started: Callable[[], object],
    limit: float | None,
) -> ToolOutput | None:
    """What came of it; None: it was not started there. `started` is called once it runs. Raises ToolFailure."""
    permit.check()
    params = {
        "command": permit.argv[0],
        "args": list(permit.argv[1:]),
        "cwd": permit.cwd,
        "env": dict(env),
        "bytes": BYTES,
        "call": ctx.call,
    }
    began, ticket = ctx.now(), {"ticket": uuid.uuid4().hex}
    try:
        answer = await editor.ask(EditorOrder(ctx.session, "start", {**params, **ticket}), START)
        if not answer.ok:
            return _tell_unknown(answer.why) if answer.gone else None
        started()
        answer = await editor.ask(EditorOrder(ctx.session, "wait", ticket), limit or LONGEST)
        late = answer.gone and limit is not None and editor.offers(ctx.session, "terminal")
        if late:
            answer = await editor.ask(EditorOrder(ctx.session, "kill", ticket), ENDING)
    except asyncio.CancelledError:
        await editor.ask(EditorOrder(ctx.session, "kill", ticket), 0)  # told, not waited for
        raise
    if not answer.ok:
        return _tell_unknown(answer.why)
    return _show(answer, permit, limit if late else None, ms=ctx.now() - began)


def _tell_unknown(why: str) -> ToolOutput:
    return make_output(UNKNOWN.format(why=why or "the editor failed"), {"status": "unknown"}, error=True)


def _show(answer: EditorAnswer, permit: ExecPermit, late: float | None, ms: int) -> ToolOutput:
    told = answer.told
    code, signal = told.get("code"), told.get("signal")
    text = str(told.get("text") or "").rstrip()
    notes = ["[the beginning is not shown]"] if told.get("truncated") else []
    notes.append(text or "(no output)")
    if late is not None:
        notes.append(f"Command timed out after {late:g} seconds and was ended.")
    elif signal:
        notes.append(f"Command was ended by signal {signal}.")
    elif code:
        notes.append(f"(exit code {code})")
    failed = late is not None or bool(signal)
    details = {
        "status": "failed" if failed else "completed",
        "exitCode": None if failed else code,
        "aggregated": text[-TAIL:],
        "durationMs": ms,
        "cwd": permit.cwd,
        "editor": True,
    }
    return make_output("\n\n".join(notes), details, error=failed)
