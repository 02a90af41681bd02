"""/steer TEXT: into the run that is going, whatever the queue mode says; without one it is an ordinary message."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.agent.marks import find_session_taint
from palinurus.core.policy.spoken import AGREED
from palinurus.core.policy.taint import write_sources
from palinurus.core.types.inbound import EarlierMessage, Inbound
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.inbox.commands.command import CommandAnswer, CommandCall

# A message that a command sends on: to the same session, from the same sender, once, however often it is tried.

FOLLOW = "follow:"  # begins its event


def make_followup(call: CommandCall, text: str, **options: Any) -> Inbound:
    """The message; its event id comes from the command's own id, so a second try is a known duplicate."""
    return msgspec.structs.replace(
        call.inbound,
        text=text,
        event=FOLLOW + call.claim.id,
        session=str(call.key),
        agent=call.key.agent,
        options=msgspec.structs.replace(call.inbound.options, **options),
    )


# /stop, and a stop word by itself: end the run of this session now.

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


async def run_bash(call: CommandCall) -> CommandAnswer:
    """A command of this machine, as the agent's exec tool would run it: same rules, same containment. Done once: after
    a crash it is not begun again."""
    rules, line = call.program.settings.commands, call.args.strip()
    if not rules.bash or call.program.invoke is None:
        return CommandAnswer("/bash is switched off (commands.bash).")
    if not line:
        return CommandAnswer("Use /bash COMMAND.")
    if call.claim.attempts > 1:
        return CommandAnswer(
            "The gateway was stopped meanwhile. Whether the command ran is not known; it was not begun again."
        )
    asked = {"command": line, "yieldMs": int(rules.bash_wait * 1000) or 10}
    done = await call.program.invoke(call.key, "exec", asked, call.inbound.sender)
    if done is None:
        return CommandAnswer("This agent has no exec tool.")
    return CommandAnswer(done.text if isinstance(done, ToolResult) else f"⚠️ {done.message}")


async def run_stop(call: CommandCall) -> CommandAnswer:
    """Stops the run, its sub-agents, and drops what waits behind it."""
    stopped, dropped, children = await call.program.inbox.stop(str(call.key), "stop", before=call.behind)
    if not stopped and not dropped and not children:
        return CommandAnswer(IDLE)
    family = f" {children} sub-agent{'s' if children != 1 else ''} stopped." if children else ""
    waiting = f" {dropped} waiting message{'s' if dropped != 1 else ''} dropped." if dropped else ""
    return CommandAnswer((ABORTED if stopped else IDLE) + family + waiting)


# /skill NAME [TEXT]: have the agent follow a skill; without a name, which skills there are.


async def run_skill(call: CommandCall) -> CommandAnswer:
    """The skill becomes a message of its own: read its instructions, then do what was asked with them."""
    found = {skill.name.lower(): skill for skill in call.program.skills(call.key) if skill.user_invocable}
    name, _, text = call.args.strip().partition(" ")
    if not name:
        if not found:
            return CommandAnswer("There are no skills that can be used here. `pal skills list` tells why.")
        return CommandAnswer("\n".join(["Skills:", *(f"  {s.name} - {s.description}" for s in found.values())]))
    skill = found.get(name.lower())
    if skill is None:
        known = ", ".join(sorted(s.name for s in found.values())) or "none"
        return CommandAnswer(f'There is no skill "{name[:64]}" that can be used here. There are: {known}.')
    asked = text.strip() or "Do what it is for."
    told = f'Use the skill "{skill.name}": read {skill.path} and follow it.\n\n{asked}'
    return CommandAnswer(f"Using the skill {skill.name}.", follow=make_followup(call, told))


# /btw QUESTION: asked beside the conversation: the model sees it, but neither question nor answer joins it.

SEEN = 40  # messages of the conversation that go along
CHARS = 2_000  # of each


async def run_btw(call: CommandCall) -> CommandAnswer:
    """A session of its own, made from the command's id, with the end of the conversation as context."""
    text = call.args.strip()
    if not text:
        return CommandAnswer("Ask something beside the conversation: /btw QUESTION.")
    transcript = await call.program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    said = [m for m in transcript.messages() if isinstance(m, UserMessage | AssistantMessage) and m.text.strip()]
    taint, context = find_session_taint(transcript), list[EarlierMessage]()
    for message in said[-SEEN:]:
        if not isinstance(message, UserMessage):
            context.append(EarlierMessage("assistant", message.text[:CHARS]))
            continue
        # What the answers are made of is not shown, but was read: the first message carries it, and stays whose it is.
        source = write_sources((message.source or AGREED, *taint)) if taint else message.source
        context.append(EarlierMessage("user", message.text[:CHARS], source=source))
        taint = ()
    beside = msgspec.structs.replace(
        make_followup(call, text, context=tuple(context)), session=f"agent:{call.key.agent}:btw:{call.claim.id}"
    )
    return CommandAnswer("", follow=beside)


async def run_steer(call: CommandCall) -> CommandAnswer:
    """The text is stored as a message of its own before this is answered."""
    text = call.args.strip()
    if not text:
        return CommandAnswer("Say what the agent should know: /steer TEXT.")
    running = call.program.inbox.running(str(call.key))
    said = "Steering the current run." if running else "No run is going; sent as a message."
    return CommandAnswer(said, follow=make_followup(call, text, queue="steer"), relay=not running)
