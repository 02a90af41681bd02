"""Names of emoji, for platforms that take names only (Slack, Mattermost)."""

from __future__ import annotations

from palinurus.patterns import compile_late

_NAME = compile_late(r"[a-z0-9_+'-]{1,100}(::skin-tone-[2-6])?")

# What is not here can be written by its name (`:eyes:`).
EMOJI_NAMES: dict[str, str] = {
    "👀": "eyes", "👍": "+1", "👎": "-1", "✅": "white_check_mark", "☑": "ballot_box_with_check", "❌": "x",
    "🤔": "thinking_face", "🔥": "fire", "❤": "heart", "🎉": "tada", "😀": "grinning", "😂": "joy", "😊": "blush",
    "🙂": "slightly_smiling_face", "😢": "cry", "😮": "open_mouth", "😡": "rage", "🙏": "pray", "👏": "clap",
    "🙌": "raised_hands", "👋": "wave", "👌": "ok_hand", "💪": "muscle", "💯": "100",
    "⏳": "hourglass_flowing_sand", "⌛": "hourglass", "⚠": "warning", "🚀": "rocket", "💡": "bulb",
    "📎": "paperclip", "✍": "writing_hand", "🤖": "robot_face", "🛑": "octagonal_sign", "☕": "coffee",
    "⭐": "star", "🦞": "lobster", "🧭": "compass", "⚡": "zap", "🔧": "wrench", "🔍": "mag", "💻": "computer",
    "🌐": "globe_with_meridians", "😱": "scream", "🥱": "yawning_face", "😨": "fearful",
}  # fmt: skip


def find_emoji_name(emoji: str) -> str:
    """The name of an emoji; "" if it is not known."""
    bare = emoji.strip().replace("\ufe0f", "")
    if bare in EMOJI_NAMES:
        return EMOJI_NAMES[bare]
    word = bare.strip(":").lower()
    return word if _NAME.fullmatch(word) else ""
