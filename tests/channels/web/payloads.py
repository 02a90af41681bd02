"""Payloads that no platform would send, with the words that they all use."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = """
events type source userId groupId message id text mention mentionees index length isSelf data post channel_id user_id
create_at props metadata files file_ids event conversation from recipient entities channelData attachments content
space name sender thread annotations userMention user header token sender_id open_id message_id chat_id chat_type
mentions key guid handle address chats isFromMe object actor target attributedTo serviceUrl chat messagePayload
""".split()
WORDS = st.sampled_from("message text posted D direct 2026-01-01T00:00:00Z 1 -1 MESSAGE image".split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)
