"""The tts tool: a text as a voice note in this chat. The port makes the sound; the reply brings it."""

from __future__ import annotations

from typing import Annotated, Protocol

from msgspec import Meta

from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, make_output
from palinurus.tools.define import bind_tools, define_tool


class SpeakerPort(Protocol):
    """Who speaks (`app/media.py` makes one)."""

    async def say(self, text: str, agent: str, channel: str, timeout: float | None) -> tuple[str, str, bool]:
        """The file, who spoke, and whether the channel shows it as a voice note. Raises ToolFailure."""
        ...


@define_tool("tts", effect="idempotent", summary=("text",), aliases={"text": "message content input"})
async def _tts(
    port: SpeakerPort,
    /,
    ctx: ToolContext,
    text: Annotated[str, "What to say, as it should be heard"],
    channel: Annotated[str, "The chat platform it is for; without it the one you are asked on"] = "",
    timeoutMs: Annotated[int, Meta(ge=1, le=600_000, description="How long it may take")] = 30_000,
) -> ToolOutput:
    """Say something aloud to the person: a voice note is sent along. Only when speech was asked for; do not write the
    same words again."""
    where = channel.strip().lower() or ctx.inbound.target.channel
    path, who, note = await port.say(text, ctx.agent, where, timeoutMs / 1000)
    told = "It is sent to the person now; answer NO_REPLY if there is nothing to add."
    return make_output(f"Said by {who}. {told}", {"media": [path], "voice": note, "provider": who})


def make_speech_tool(port: SpeakerPort | None) -> dict[str, Tool]:
    """The tool, by its name; empty without a voice."""
    return bind_tools((_tts,), port) if port is not None else {}
