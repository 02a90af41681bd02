"""Replies for ears: which of them are read aloud, and a voice note in the place of a row that is to be spoken.

The decision is a row of the outbox of its own, behind the text and with an id that comes from the text's: it is on disk
with the settlement, so that a crash neither loses nor doubles it. The sound is made when the row's turn comes, and kept
under what it was made of; the text has gone out by then. Where nobody can speak, the row is given up, or written if its
words were for ears only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from palinurus.config.sections.audio import AutoSpeech
from palinurus.core.format.speakable import make_speakable
from palinurus.core.speech import SHORT, SpokenText, merge_speech
from palinurus.core.stream.answer import MESSAGE_GAP
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.outbound import Reply, ReplyBuilder
from palinurus.providers.speech.maker import SpokenAudio
from palinurus.providers.speech.requests import SoundUse

SPOKEN = ".v"  # ends the id of a row that is spoken
SAID = ("block", "final")  # kinds of replies that are the answer


class VoicePort(Protocol):
    """See `services/speech.py: AgentVoices`."""

    def choose_use(self, channel: str) -> SoundUse | None: ...

    async def speak_reply(self, said: SpokenText, use: SoundUse) -> SpokenAudio | ModelFailure: ...


class VoicedSpeaker:
    """A speaker around the run's own: adds rows that are spoken. `mode` is asked when the answer is there; with `every`
    each part of it, and each tool line, is spoken as it comes; `words`: the model may say other words than it shows."""

    def __init__(
        self, inner: ReplyBuilder, inbound: Inbound, item: str, said: SpokenText, mode: Callable[[], AutoSpeech]
    ) -> None:
        self._inner = inner
        self._inbound = inbound
        self._item = item
        self._said = said  # whose voice it is
        self._mode = mode
        self._texts: list[str] = []
        self._marks: list[SpokenText] = []
        self._media = False
        self._ended = False
        self.every = False
        self.words = True

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        if isinstance(event, AgentEnd):
            self._ended = event.end in ("stop", "length", "max_turns")
        now = self._inner.feed(event)
        return self._hear(now) if now else now

    def close(self) -> tuple[Reply, ...]:
        replies = self._hear(self._inner.close())
        if self.every or not self._ended:
            return replies
        spoken = self._speak(self._texts, self._marks, f"{self._item}{SPOKEN}")
        if spoken is None or spoken.speak is None:
            return replies
        if spoken.speak.only:
            replies = tuple(one for one in replies if one.text != spoken.speak.text or one.kind not in SAID)
        return (*replies, spoken)

    def _hear(self, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """The same without marks, which are remembered; with `every` each with the row that says it."""
        made: list[Reply] = []
        for reply in replies:
            own = [reply.speak] if reply.speak is not None else []
            plain = msgspec.structs.replace(reply, text=reply.text or _written(own), speak=None)
            self._media = self._media or bool(reply.media)
            spoken = None
            if self.every and reply.kind in (*SAID, "tool"):
                spoken = self._speak([reply.text], own, f"{reply.client_id}{SPOKEN}")
            elif reply.kind in SAID:
                self._texts.append(reply.text)
                self._marks += own
            if spoken is None or spoken.speak is None:
                made.append(plain)
            else:
                made += (spoken,) if spoken.speak.only else (plain, spoken)
        return tuple(made)

    def _speak(self, texts: list[str], marks: list[SpokenText], ident: str) -> Reply | None:
        """The row, if this is one that is read aloud."""
        mode, mark = self._mode(), merge_speech(marks)
        wanted = {
            "always": True,
            "inbound": self._inbound.spoken,
            "tagged": mark is not None,
        }.get(mode, False)
        shown = MESSAGE_GAP.join(text for text in texts if text)
        own = mark.text if mark is not None and self.words else ""
        text = own or shown
        if not wanted or (mark is None and (self._media or len(make_speakable(shown)) < SHORT)) or not text.strip():
            return None
        only = bool(own) and shown in ("", own)
        options = mark.options if mark is not None else {}
        said = msgspec.structs.replace(self._said, text=text, options=options, only=only)
        return Reply(self._inbound.target, "", ident, speak=said)


def _written(marks: list[SpokenText]) -> str:
    """Words for ears only, for those who get them in writing."""
    return marks[0].text if marks else ""


class ReplyVoicer:
    """What the deliverer asks for a row that is to be spoken."""

    def __init__(self, voices: VoicePort) -> None:
        self._voices = voices

    async def voice(self, reply: Reply) -> Reply | str:
        """The message to send, or why there is none. A channel that knows no voice notes gets a file with sound."""
        said = reply.speak
        if said is None:
            return reply
        use = self._voices.choose_use(reply.target.channel)
        plain = msgspec.structs.replace(reply, speak=None)
        if use is None:
            return msgspec.structs.replace(plain, text=said.text) if said.only else "this channel takes no files"
        made = await self._voices.speak_reply(said, use)
        if isinstance(made, ModelFailure):
            return msgspec.structs.replace(plain, text=said.text) if said.only else f"not spoken: {made.message}"
        return msgspec.structs.replace(plain, media=(made.path,), voice=made.note and use == "note")
