"""/tts: what is read aloud, by whom, and one thing said aloud now. What is switched for all chats is the owner's; a
session's own word and hearing something are everybody's who may give commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from palinurus.core.speech import SpokenText
from palinurus.core.stream.answer import read_answer
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelFailure
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.providers.speech.voices import NAMES
from palinurus.services.speech import LIMITS, MODES, AgentVoices

USAGE = (
    "Use /tts on|off|inbound|tagged, /tts chat on|off|default, /tts provider ID, /tts limit N, /tts summary on|off, "
    "/tts audio TEXT, /tts latest or /tts status."
)
CHAT: dict[str, str | None] = {"on": "always", "default": None, **{mode: mode for mode in MODES}}
SWITCHES = {"on": True, "off": False}


async def run_tts(call: CommandCall) -> CommandAnswer:
    """Alone it tells how things stand. Raises StateError kinds."""
    voices = call.program.voices
    if voices is None:
        return CommandAnswer("Nothing can be read aloud here.")
    word, _, rest = call.args.strip().partition(" ")
    word, rest = word.lower() or "status", rest.strip()
    if word in ("on", *MODES):
        return await _owned(call, voices, _switch, "always" if word == "on" else word)
    run, owned = _WORDS.get(word, (None, False))
    if run is None:
        return CommandAnswer(USAGE)
    return await (_owned(call, voices, run, rest) if owned else run(call, voices, rest))


async def _owned(
    call: CommandCall,
    voices: AgentVoices,
    run: Callable[[CommandCall, AgentVoices, str], Awaitable[CommandAnswer]],
    rest: str,
) -> CommandAnswer:
    if not call.admin:
        return CommandAnswer("What is read aloud in all chats is the owner's to say; /tts chat is for this one.")
    return await run(call, voices, rest)


async def _status(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    now = voices.describe(call.key.agent)
    here = voices.find_mode(call.key.agent, call.record.ttsAuto)
    said = f" (this chat says {call.record.ttsAuto})" if call.record.ttsAuto else ""
    lines = [
        f"Read aloud here: {here}{said}; elsewhere: {now['auto']}.",
        f"Who speaks: {now['provider'] or 'nobody can'}"
        + (f", then {', '.join(now['fallbackProviders'])}" if now["fallbackProviders"] else "")
        + ".",
        f"Replies over {now['maxLength']} characters are {'summarized' if now['summarize'] else 'cut'} before that.",
    ]
    last = now.get("lastAttempt")
    if last:
        lines.append(f"Last time: {last['provider'] if last['success'] else last['error']}.")
    if not now["provider"]:
        rows = voices.list_providers(voices.find_settings(call.key.agent))
        lines += [f"- {row['id']}: {row.get('reason', 'ready')}" for row in rows]
    return CommandAnswer("\n".join(lines))


async def _switch(call: CommandCall, voices: AgentVoices, mode: str) -> CommandAnswer:
    await voices.switch(auto=mode)
    if mode != "off" and voices.find_mode(call.key.agent) == "off":
        return CommandAnswer(f"Switched to {mode}, but nobody here can speak. /tts status says why.")
    return CommandAnswer("Nothing is read aloud." if mode == "off" else f"Read aloud: {mode}.")


async def _chat(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    if rest.lower() not in CHAT:
        return CommandAnswer("Use /tts chat on, /tts chat off or /tts chat default.")
    said = CHAT[rest.lower()]
    record = msgspec.structs.replace(call.record, ttsAuto=said)
    mode = voices.find_mode(call.key.agent, said)
    return CommandAnswer(f"Read aloud in this chat: {mode}.", record)


async def _provider(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    ident = NAMES.get(rest.lower(), rest.lower())
    speech = voices.find_settings(call.key.agent)
    if not ident:
        rows = voices.list_providers(speech)
        return CommandAnswer("\n".join(f"- {row['id']}: {row.get('reason', 'ready')}" for row in rows))
    found = voices.finder.find(ident, speech)
    if isinstance(found, ModelFailure):
        return CommandAnswer(f"{ident[:64]} cannot speak: {found.message}")
    await voices.switch(provider=ident)
    return CommandAnswer(f"{ident} speaks.")


async def _limit(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    number = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 6 else 0
    if not LIMITS[0] <= number <= LIMITS[1]:
        return CommandAnswer(f"Use /tts limit with a number from {LIMITS[0]} to {LIMITS[1]}.")
    await voices.switch(long=number)
    return CommandAnswer(f"Replies over {number} characters are shortened before they are spoken.")


async def _summary(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    if rest.lower() not in SWITCHES:
        return CommandAnswer("Use /tts summary on or /tts summary off.")
    await voices.switch(summarize=SWITCHES[rest.lower()])
    return CommandAnswer("Long replies are summarized before." if SWITCHES[rest.lower()] else "Long replies are cut.")


async def _audio(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    if not rest:
        return CommandAnswer("Use /tts audio TEXT.")
    limit = voices.find_settings(call.key.agent).limit
    if len(rest) > limit:
        return CommandAnswer(f"{len(rest)} characters are too many to say: at most {limit}.")
    return _say(call, rest, only=True)


async def _latest(call: CommandCall, voices: AgentVoices, rest: str) -> CommandAnswer:
    transcript = await call.program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    found = (read_answer(one.text) for one in reversed(transcript.messages()) if isinstance(one, AssistantMessage))
    text = next((one.text for one in found if one.text), "") if call.stored else ""
    return _say(call, text) if text else CommandAnswer("There is no reply to be read aloud yet.")


def _say(call: CommandCall, text: str, *, only: bool = False) -> CommandAnswer:
    if not call.inbound.push:
        return CommandAnswer("Voice notes go to chats; the page reads a message aloud with the button below it.")
    return CommandAnswer("", speak=SpokenText(text, agent=call.key.agent, session=str(call.key), only=only))


_WORDS: dict[str, tuple[Callable[[CommandCall, AgentVoices, str], Awaitable[CommandAnswer]], bool]] = {
    "status": (_status, False),
    "chat": (_chat, False),
    "audio": (_audio, False),
    "latest": (_latest, False),
    "provider": (_provider, True),
    "limit": (_limit, True),
    "summary": (_summary, True),
}
