"""/steer TEXT: into the run that is going, whatever the queue mode says; without one it is an ordinary message."""

from __future__ import annotations

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.follow import make_followup


async def run_steer(call: CommandCall) -> CommandAnswer:
    """The text is stored as a message of its own before this is answered."""
    text = call.args.strip()
    if not text:
        return CommandAnswer("Say what the agent should know: /steer TEXT.")
    running = call.desk.running(str(call.key))
    said = "Steering the current run." if running else "No run is going; sent as a message."
    return CommandAnswer(said, follow=make_followup(call, text, {"queue": "steer"}), relay=not running)
