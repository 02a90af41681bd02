"""Exports: everything that was said, and nothing in it that acts."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.sessions.entries import CompactionEntry, LabelEntry, ModelChangeEntry
from palinurus.sessions.export import to_html, to_json, to_markdown
from palinurus.sessions.transcript import Transcript

NOW = 1_781_082_001_000
EVIL = '<script>alert("x")</script><img src=x onerror=y>&amp;'


def conversation() -> Transcript:
    t = Transcript("agents/main/sessions/s.jsonl", "/w")
    (_, first) = t.add(UserMessage("hello " + EVIL, NOW), "", NOW)
    t.add(UserMessage("on a branch that was left"), "", NOW)
    t.branch_line(first.id, NOW)
    t.add_entry(ModelChangeEntry(provider="p", modelId="m"), NOW)
    t.add(
        AssistantMessage(
            (ThinkingBlock("hm"), TextBlock("look"), ToolCall("c", EVIL, {"path": "```\n" + EVIL})), errorMessage="late"
        ),
        "",
        NOW,
    )
    t.add(
        ToolResult("c", EVIL, (TextBlock("````\nresult\x1b[31m"), ImageBlock("aGk=", "image/png")), isError=True),
        "",
        NOW,
    )
    t.add_entry(CompactionEntry(summary="all of it", firstKeptEntryId=None), NOW)
    t.add_entry(LabelEntry(targetId=first.id, label=EVIL), NOW)
    return t


def test_json_has_every_branch() -> None:
    t = conversation()
    body = json.loads(to_json(t, "agent:main:main"))
    assert body["key"] == "agent:main:main"
    assert body["header"]["version"] == 3
    assert len(body["entries"]) == len(t.entries)
    assert body["path"][-1] == body["leaf"] == t.leaf
    assert body["labels"] == {t.entries[0].id: EVIL}
    assert "on a branch that was left" in json.dumps(body)
    assert "\x1b" not in to_json(t, "k")


def test_markdown_tells_the_current_path() -> None:
    text = to_markdown(conversation(), "agent:main:main")
    assert text.startswith("# agent:main:main\n")
    assert "## user · 2026-06-10 09:00" in text
    assert "on a branch that was left" not in text
    assert "> all of it" in text  # what came before a compaction is told too
    assert "hello" in text
    assert "\x1b" not in text
    # a fence is longer than any inside it
    assert re.search(r"^`````\n````\nresult", text, re.MULTILINE)


def test_html_is_one_harmless_file() -> None:
    page = to_html(conversation(), EVIL)
    body = page[page.index("<body>") :]
    assert not re.findall(r"<(?!/?(?:html|body|h1|article|header|b|span|a|div|details|summary|pre|p|img)\b)", body)
    assert "<script" not in page
    assert "onerror=y>" not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"(?:https?:)?//", page)
    assert 'src="data:image/png;base64,aGk="' in page
    assert "on a branch that was left" not in page


def test_html_shows_no_other_kinds_of_images() -> None:
    for mime, data in (("image/svg+xml", "aGk="), ("text/html", "aGk="), ("image/png", '"><script>'), ('image/"', "a")):
        t = Transcript("s.jsonl")
        t.add(UserMessage((ImageBlock(data, mime),)), "", NOW)
        page = to_html(t, "k")
        assert "<img" not in page
        assert "cannot be shown" in page


def test_an_empty_session() -> None:
    t = Transcript("s.jsonl")
    assert "Nothing was said" in to_html(t, "k")
    assert to_markdown(t, "k") == "# k\n"
    assert json.loads(to_json(t, "k"))["entries"] == []


@given(st.text(max_size=40), st.text(max_size=40))
def test_nothing_said_becomes_markup(text: str, name: str) -> None:
    t = Transcript("s.jsonl")
    t.add(UserMessage(text, NOW), "", NOW)
    t.add(AssistantMessage((ToolCall("c", name, {"a": text}),)), "", NOW)
    page = to_html(t, name)
    assert page.count("<article") == len(t.messages()) == 2
    assert page.count("<script") == 0
    page.encode()
    to_markdown(t, name).encode()
    json.loads(to_json(t, name))
