"""Emoji as Slack calls them. Slack takes names only; what is not here can be written by its name (`:eyes:`)."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?")

EMOJI_NAMES: dict[str, str] = {
    "👀": "eyes",
    "👍": "+1",
    "👎": "-1",
    "✅": "white_check_mark",
    "☑": "ballot_box_with_check",
    "❌": "x",
    "🤔": "thinking_face",
    "🔥": "fire",
    "❤": "heart",
    "🎉": "tada",
    "😀": "grinning",
    "😂": "joy",
    "😊": "blush",
    "🙂": "slightly_smiling_face",
    "😢": "cry",
    "😮": "open_mouth",
    "😡": "rage",
    "🙏": "pray",
    "👏": "clap",
    "🙌": "raised_hands",
    "👋": "wave",
    "👌": "ok_hand",
    "💪": "muscle",
    "💯": "100",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "⚠": "warning",
    "🚀": "rocket",
    "💡": "bulb",
    "📎": "paperclip",
    "✍": "writing_hand",
    "🤖": "robot_face",
    "🛑": "octagonal_sign",
    "☕": "coffee",
    "⭐": "star",
    "🦞": "lobster",
    "🧭": "compass",
    "⚡": "zap",
    "🔧": "wrench",
    "🔍": "mag",
    "💻": "computer",
    "🌐": "globe_with_meridians",
    "😱": "scream",
    "🥱": "yawning_face",
    "😨": "fearful",
}


def find_emoji_name(emoji: str) -> str:
    """Slack's name of an emoji; "" if it is not known."""
    bare = emoji.strip().replace("\ufe0f", "")
    if bare in EMOJI_NAMES:
        return EMOJI_NAMES[bare]
    word = bare.strip(":").lower()
    return word if _NAME.fullmatch(word) else ""
