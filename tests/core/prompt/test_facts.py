from __future__ import annotations

import re

from palinurus.core.prompt.facts import display_owners, write_voice_hint


def test_owners_raw_or_hashed() -> None:
    assert display_owners(["+1", " +1 ", "", "*", "@x"]) == ("+1", "@x")
    hashed = display_owners(["+1"], "hash", "secret")
    assert re.fullmatch(r"[0-9a-f]{12}", hashed[0]) and hashed != display_owners(["+1"], "hash", "other")


def test_voice_words() -> None:
    assert write_voice_hint("off") == "" and write_voice_hint("nonsense") == ""
    assert "Every reply" in write_voice_hint("always") and "under 500 characters" in write_voice_hint("always", 500)
    assert "voice messages" in write_voice_hint("inbound") and "[[tts:text]]" in write_voice_hint("tagged")
