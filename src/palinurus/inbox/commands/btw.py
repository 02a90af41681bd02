"""/btw QUESTION: asked beside the conversation: the model sees it, but neither question nor answer joins it."""

from __future__ import annotations

import msgspec

from palinurus.core.types.messages import AssistantMessage, UserMessage
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.follow import make_followup

SEEN = 40  # messages of the conversation that go along
CHARS = 2_000  # of each


async def run_btw(call: CommandCall) -> CommandAnswer:
    """A session of its own, made from the command's id, with the end of the conversation as context."""
    text = call.args.strip()
    if not text:
        return CommandAnswer("Ask something beside the conversation: /btw QUESTION.")
    transcript = await call.desk.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    said = [m for m in transcript.messages() if isinstance(m, UserMessage | AssistantMessage) and m.text.strip()]
    context = [
        {"role": "user" if isinstance(m, UserMessage) else "assistant", "content": m.text[:CHARS]} for m in said[-SEEN:]
    ]
    beside = msgspec.structs.replace(
        make_followup(call, text, {"context": context}), session=f"agent:{call.key.agent}:btw:{call.claim.id}"
    )
    return CommandAnswer("", follow=beside)
