"""The owner's own words in a conversation: messages without what was pasted or quoted in them, and what the last of
them asks for where it only answers or goes on ("yes, do it", "to bob@example.org"). Pure.

A pasted mail is content: it may hold an order, and whoever wrote it is not the owner. What is short stays the owner's,
also between fences: people write commands and names like that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from palinurus.core.types.messages import ImageBlock, Message, TextBlock, ToolResult, UserMessage
from palinurus.core.untrusted import ADDED_HEADING, MARK
from palinurus.patterns import compile_late

AGREED = "agreed"  # a source: the owner has read this text whole and said yes, though its author was somebody else
SHORT_LINES, SHORT_CHARS = 3, 200  # of a block that is still the owner's
LONG_CHARS, LONG_PARAGRAPH = 1_500, 600  # a message in which only short paragraphs at its ends are the owner's

_FENCED = compile_late(r"(?ms)^[ \t]{0,3}(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]{0,3}\1[`~]*[ \t]*$|\Z)")
_QUOTED_LINES = compile_late(r"(?m)^[ \t]{0,3}>[^\n]*\n?")
_LONG_QUOTE = compile_late(r"[\"“„«]([^\"“”„«»]{200,4000})[\"”»]")
_MARKED = ("original message", "forwarded message", "ursprüngliche nachricht", "message transféré")
_HEADERS = frozenset("from von de subject betreff objet to an date datum sent gesendet cc".split())
_QUOTES = frozenset('"“„«')
_ASSENT = frozenset(
    "yes yeah yep ok okay sure please do go ahead it that this both all right correct exactly proceed confirm "
    "confirmed continue now then ja bitte mach das genau oui vas-y d'accord si sí".split()
)
_WORDS = compile_late(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
ANSWER_WORDS = 8  # of a message that only gives what was missing


def strip_pasted(text: str) -> str:
    """Without blocks that were pasted or quoted. Most messages have none, and are done with at a glance."""
    if "\n" not in text and len(text) < SHORT_CHARS:
        return text
    own = _cut_forwarded(text) if ": " in text or "--" in text else text
    if "```" in own or "~~~" in own:
        own = _FENCED.sub(lambda found: found[0] if _is_short(found[2]) else "\n", own)
    if ">" in own:
        own = _QUOTED_LINES.sub("", own)
    if len(own) > SHORT_CHARS and any(quote in own for quote in _QUOTES):
        own = _LONG_QUOTE.sub(" ", own)
    if len(own) <= LONG_CHARS:
        return own
    blocks = [block for block in own.split("\n\n") if block.strip()]
    if len(blocks) < 3:  # one thought, however long
        return own if len(blocks) < 2 else "\n\n".join(b for b in blocks if len(b) <= LONG_PARAGRAPH)
    return "\n\n".join(block for block in (blocks[0], blocks[-1]) if len(block) <= LONG_PARAGRAPH)


def _cut_forwarded(text: str) -> str:
    """Up to a mail that was forwarded: a line that says so, or two headers one after another."""
    at, before = 0, -1  # where the line begins; where a header began just before it
    for line in text.split("\n"):
        if line.startswith("--") and line.lstrip("-").lstrip().casefold().startswith(_MARKED):
            return text[:at]
        head, colon, _ = line.partition(": ")
        if not colon or head.casefold() not in _HEADERS:
            before = -1
        elif before >= 0:
            return text[:before]
        else:
            before = at
        at += len(line) + 1
    return text


def has_pasted(message: UserMessage) -> bool:
    """Is there such a block in it, or a picture, in which somebody else's words may stand?"""
    text = get_typed(message)
    return strip_pasted(text) != text or any(isinstance(block, ImageBlock) for block in message.blocks)


def get_typed(message: UserMessage) -> str:
    """The person's own part: what the program and plugins tell with a message stands in blocks before it, what plugins
    add below a heading, and the facts of a webhook framed below the owner's words."""
    if isinstance(message.content, str):
        text = message.content
    else:
        text = next((block.text for block in reversed(message.content) if isinstance(block, TextBlock)), "")
    text = text.partition(f"\n{ADDED_HEADING}\n")[0]
    return text.partition(f"<<<{MARK}")[0] if message.source else text


def is_owners(message: Message) -> TypeGuard[UserMessage]:
    """Did the owner write it, or read it whole and agree?"""
    return isinstance(message, UserMessage) and (not message.source or AGREED in message.source.split("\n"))


def list_own_words(messages: Sequence[Message]) -> list[str]:
    """What the owner said, oldest first."""
    return [strip_pasted(get_typed(m)) for m in messages if is_owners(m)]


def join_wish(messages: Sequence[Message], tool: str = "") -> str:
    """What the owner asks for now: the last message, with those before it that it answers or agrees to. Not what `tool`
    has done meanwhile: a wish is good for one message, and "thanks, 10 of them" is no second order."""
    taken: list[str] = []
    for message in reversed(messages):
        if isinstance(message, ToolResult) and taken and message.toolName == tool and not message.isError:
            break
        if is_owners(message):
            taken.append(strip_pasted(get_typed(message)))
            if not _goes_on(taken[-1]):
                break
    return "\n".join(reversed(taken))


def _goes_on(text: str) -> bool:
    """Is it only a yes, or what was missing: an address, a number, a name in quotes?"""
    words = [word.casefold() for word in _WORDS.findall(text[:400])]
    if not text.strip() or len(text) > 200 or words[:1] in (["no"], ["stop"]):
        return False
    if all(word in _ASSENT for word in words):
        return bool(words)
    return len(words) <= ANSWER_WORDS and ("@" in text or any(c.isdigit() for c in text)) and "?" not in text


def _is_short(block: str) -> bool:
    return len(block) <= SHORT_CHARS and block.rstrip("\n").count("\n") < SHORT_LINES
