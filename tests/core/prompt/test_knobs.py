from __future__ import annotations

import re

from palinurus.core.prompt.knobs import owners, voice


def test_owners_raw_or_hashed() -> None:
    assert owners(["+1", " +1 ", "", "*", "@x"]) == ("+1", "@x")
    hashed = owners(["+1"], "hash", "secret")
    assert re.fullmatch(r"[0-9a-f]{12}", hashed[0]) and hashed != owners(["+1"], "hash", "other")


def test_voice_words() -> None:
    assert voice("off") == "" and voice("nonsense") == ""
    assert "Every reply" in voice("always") and "under 500 characters" in voice("always", 500)
    assert "voice messages" in voice("inbound") and "[[tts:text]]" in voice("tagged")
