"""The chat the run answers in: what replies may carry, who sees them, when silence is right. Mostly below the
boundary, because it follows the channel; only the output directives are the same everywhere.
"""

from __future__ import annotations

from palinurus.core.prompt.facts import PromptFacts, StableFacts, has_tool, strip_lines
from palinurus.core.stream.silent import HEARTBEAT_TOKEN, SILENCE_TOKEN

WEB = "webchat"


def write_directives(facts: StableFacts) -> str:
    """Attachments, voice notes, reply tags."""
    if facts.message_only:
        return (
            "## Assistant Output Directives\n"
            "Only what you send with the `message` tool is seen; attach files and choose the message to reply to with "
            "its arguments. Tags in your own text have no effect here."
        )
    return (
        "## Assistant Output Directives\n"
        "Palinurus understands these in a reply, and strips them before sending:\n"
        "- `MEDIA:<path-or-url>` on a line of its own, or `[[media:<path-or-url>]]`, attaches a file.\n"
        "- `[[audio_as_voice]]` sends attached audio as a voice note.\n"
        "- `[[reply_to_current]]` at the very beginning makes the reply a native reply to the message that asked; "
        "`[[reply_to:<id>]]` only with an id that was given to you. White space inside the brackets is allowed.\n"
        "Whether they show depends on the channel."
    )


def write_reasoning_format(facts: StableFacts) -> str:
    if not facts.tagged:
        return ""
    return (
        "## Reasoning Format\n"
        "All reasoning goes inside <think>…</think>, and nothing else does. After it put what the person shall read "
        "inside <final>…</final>: only that is shown, everything outside is dropped."
    )


def write_embed(facts: PromptFacts) -> str:
    if facts.channel != WEB:
        return ""
    return (
        "## Control UI Embed\n"
        "This chat renders Markdown, with tables and code. Pages are not shown inline: give their address as a link."
    )


def write_messaging(facts: PromptFacts) -> str:
    lines = (
        (True, "## Messaging"),
        (
            facts.message_only,
            "Your text is not posted in this chat: answer with `message`, and send nothing else after it.",
        ),
        (not facts.message_only, "Your reply in this session goes by itself to where the message came from."),
        (has_tool(facts, "sessions_send"), "To write to another session use `sessions_send`."),
        (True, "Palinurus does the delivery of chat messages."),
        (has_tool(facts, "exec"), "Never send any with `exec` or `curl`."),
        (
            True,
            "Texts of sub-agents, jobs and the system are for you: tell their content in your own voice, without raw "
            "metadata.",
        ),
    )
    sending = (
        (
            True,
            "Use `message` for messages you start yourself and for channel actions (polls, reactions and the like); "
            "with action send give `message`, and the target if it is not this chat.",
        ),
        (
            _quiet(facts),
            f"If `message` already delivered what the person is to see, answer with only {SILENCE_TOKEN}.",
        ),
        (facts.buttons, "Inline buttons work here: `buttons` holds rows of {text, callback_data}."),
    )
    said = (*lines, *sending) if has_tool(facts, "message") else lines
    return "\n".join(line for there, line in said if there)


def write_approvals(facts: PromptFacts) -> str:
    """Who asks the person when a tool needs approval. Depends on the channel, so it is not in Tool Call Style."""
    if not has_tool(facts, "exec"):
        return ""
    if facts.approvals:
        return (
            "## Approvals\n"
            "This channel asks for approvals itself, with buttons or a card: rely on that and wait. Give a `/approve` "
            "command only when the tool result says that approval in the chat is unavailable or that approving by hand "
            "is the only way."
        )
    return (
        "## Approvals\n"
        "When a tool result asks for approval, give the person the exact `/approve …` command it contains, with the "
        "whole command to be run, unchanged. Each approval counts once."
    )


def _quiet(facts: PromptFacts) -> bool:
    """Is this an automatic reply among several people, where silence is allowed? Direct chats never hear of it."""
    return facts.kind != "direct" and not facts.message_only and facts.knobs.silent_group == "allow"


def write_silent_replies(facts: PromptFacts) -> str:
    """Only where replies are posted automatically among several people: elsewhere the context rules what is seen."""
    if not _quiet(facts):
        return ""
    return (
        "## Silent Replies\n"
        f"When you have nothing to add, answer with only {SILENCE_TOKEN}: nothing is posted then. It must be the whole "
        "answer, never a part of one, and never inside formatting."
    )


def write_voice(facts: PromptFacts) -> str:
    hint = strip_lines(facts.knobs.voice)
    return f"## Voice (TTS)\n{hint}" if hint else ""


def write_extra_context(facts: PromptFacts) -> str:
    """A group's or a sub-agent's own context. The title tells which."""
    text = strip_lines(facts.extra)
    if not text:
        return ""
    title = "Group Chat Context" if facts.kind != "direct" else "Additional Instructions"
    title = "Subagent Context" if facts.mode == "minimal" else title
    return f"## {title}\n{text}"


def write_reactions(facts: PromptFacts) -> str:
    if not facts.reactions or not has_tool(facts, "message"):
        return ""
    how = (
        "sparingly: to acknowledge something important or a feeling, at most once in five to ten exchanges, never to "
        "routine messages or your own"
        if facts.reactions == "minimal"
        else "freely, wherever a person would: to agree, to thank, to laugh, to show that you have seen it"
    )
    where = f" on {facts.channel}" if facts.channel else ""
    return f"## Reactions\nYou can react with an emoji{where} (`message` action react). Do so {how}."


def write_provider_suffix(facts: PromptFacts) -> str:
    """The provider's own text below the boundary."""
    return strip_lines(facts.contribution.suffix)


def write_heartbeats(facts: PromptFacts) -> str:
    prompt = strip_lines(facts.knobs.heartbeat)
    if not prompt:
        return ""
    return (
        "## Heartbeats\n"
        f"Heartbeat prompt: {prompt}\n"
        f"When a message is this prompt and nothing needs attention, answer with exactly {HEARTBEAT_TOKEN}: it is "
        f"swallowed as an acknowledgement. If something does, write the alert alone, without {HEARTBEAT_TOKEN}."
    )
