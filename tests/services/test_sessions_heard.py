"""What one session is shown of another's conversation."""

from __future__ import annotations

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.services.sessions import LONGEST, HistoryCleaner

KEY = "hunter2hunter2"
SAID = (
    UserMessage((TextBlock(f"my key is {KEY}"), ImageBlock("QUJD", "image/png")), 1),
    AssistantMessage(
        (ThinkingBlock("hm", "sig"), TextBlock("ok"), ToolCall("c", "exec", {"command": f"echo {KEY}"})), timestamp=2
    ),
    ToolResult("c", "exec", (TextBlock(KEY),), timestamp=3),
    AssistantMessage((ThinkingBlock("only a thought"),)),
)


def test_no_secrets_pictures_thoughts_or_tools() -> None:
    cleaner = HistoryCleaner((KEY,))
    assert cleaner.messages(SAID, tools=False) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "my key is ***"},
                {"type": "image", "mimeType": "image/png", "omitted": True},
            ],
            "timestamp": 1,
        },
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}], "timestamp": 2},
    ]
    assert cleaner.blanked and not cleaner.cut


def test_with_tools() -> None:
    cleaner = HistoryCleaner((KEY,))
    _, asked, result = cleaner.messages(SAID, tools=True)
    assert asked["content"][1] == {"type": "toolCall", "name": "exec", "arguments": {"command": "echo ***"}}
    assert (result["role"], result["toolName"], result["isError"]) == ("toolResult", "exec", False)
    assert KEY not in str((asked, result)) and "QUJD" not in str((asked, result))


def test_long_texts_are_cut() -> None:
    cleaner = HistoryCleaner()
    assert cleaner.text("x" * LONGEST) == "x" * LONGEST and not cleaner.cut
    assert cleaner.text("x" * (LONGEST + 5)).endswith("… (5 more characters)") and cleaner.cut
    (call,) = HistoryCleaner().messages(
        (AssistantMessage((ToolCall("c", "write", {"content": "y" * 9000}),)),), tools=True
    )
    assert len(call["content"][0]["arguments"]) < LONGEST + 100
