"""/stop, and a stop word by itself: end the run of this session now."""

from __future__ import annotations

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall

ABORTED = "⚙️ Agent was aborted."
IDLE = "Nothing is running in this session."

# Said alone, with or without punctuation behind.
STOP_WORDS: frozenset[str] = frozenset(
    (
        "stop", "esc", "abort", "wait", "exit", "interrupt", "halt", "please stop", "stop please", "stop palinurus",
        "stop openclaw", "stopp", "anhalten", "abbrechen", "arrête", "arrete", "parar", "detente", "pare",
        "ferma", "fermati", "стоп", "остановись", "停止", "停", "やめて", "止まれ", "멈춰", "रुको", "توقف", "قف", "dur",
    )
)  # fmt: skip


async def run_stop(call: CommandCall) -> CommandAnswer:
    """Stops the run, its sub-agents, and drops what waits behind it."""
    session = str(call.key)
    stopped = call.desk.abort(session, "stop")
    dropped = await call.desk.clear(session) if call.desk.clear is not None else 0
    children = await call.desk.nest.stop(session) if call.desk.nest is not None else 0
    if not stopped and not dropped and not children:
        return CommandAnswer(IDLE)
    family = f" {children} sub-agent{'s' if children != 1 else ''} stopped." if children else ""
    waiting = f" {dropped} waiting message{'s' if dropped != 1 else ''} dropped." if dropped else ""
    return CommandAnswer((ABORTED if stopped else IDLE) + family + waiting)
