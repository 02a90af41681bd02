"""What people said in groups without meaning us: context for the message that does. Bounded, and in memory only.

Killed: it is lost, and the next answer knows a little less. Kept per chat and thread, for every account by itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TypeAlias

from palinurus.core import untrusted
from palinurus.core.types.inbound import Inbound, Target

CHATS = 1_000  # the longest silent chat is forgotten first

_Said: TypeAlias = tuple[str, str]  # event, line


class OverheardMessages:
    def __init__(self, chats: int = CHATS) -> None:
        self._chats = chats
        self._said: OrderedDict[Target, deque[_Said]] = OrderedDict()

    def note(self, inbound: Inbound, most: int) -> None:
        """Remember a message; the same event counts once. Nothing with `most` 0."""
        text = inbound.text.strip() or " ".join(f"[{one.mime}]" for one in inbound.files)
        if most <= 0 or not text:
            return
        said = self._said.setdefault(inbound.target, deque())
        self._said.move_to_end(inbound.target)
        if not any(event == inbound.event for event, _ in said):
            said.append(
                (inbound.event, untrusted.frame_earlier_message(inbound.sender.name or inbound.sender.id, text))
            )
        while len(said) > most:
            said.popleft()
        while len(self._said) > self._chats:
            self._said.popitem(last=False)

    def before(self, target: Target, event: str) -> tuple[str, ...]:
        """What was said in the chat since the last answer, oldest first; not the event itself."""
        return tuple(line for one, line in self._said.get(target, ()) if one != event)

    def forget(self, target: Target, count: int) -> None:
        """The oldest `count` lines are part of a conversation now."""
        said = self._said.get(target)
        for _ in range(min(count, len(said)) if said else 0):
            assert said is not None
            said.popleft()
        if not said:
            self._said.pop(target, None)
