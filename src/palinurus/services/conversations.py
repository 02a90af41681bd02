"""What a client of OpenAI's API gave a conversation when it was made. One record each, on disk before it is answered;
everything else of a conversation is its session."""

from __future__ import annotations

import msgspec

from palinurus.core.types.inbound import EarlierMessage
from palinurus.store.port import Store


class KeptConversation(msgspec.Struct, frozen=True):
    """What a client gave a conversation when it was made; the rest of it is the session."""

    at: int  # ms
    metadata: dict[str, str] = {}
    items: tuple[EarlierMessage, ...] = ()


CONVERSATION = "openai:conversation:"  # how names of their sessions begin
_KIND = "openai-conversation"


async def find_conversation(store: Store, session: str) -> KeptConversation | None:
    """None: it was given nothing, or is none."""
    if f":{CONVERSATION}" not in session:
        return None
    found = await store.get_record(_KIND, session)
    return msgspec.json.decode(found.data, type=KeptConversation) if found is not None else None


async def keep_conversation(store: Store, session: str, kept: KeptConversation | None) -> None:
    """On disk when this returns; None: forgotten."""
    await store.put_record(_KIND, session, msgspec.json.encode(kept) if kept is not None else None)
