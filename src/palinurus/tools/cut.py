"""What leaves a tool: text that can be stored and fits, binary described, images of a size that providers take.

A text that does not fit is kept whole beside the transcript, under a handle that `read` pages, before the shortened
one is handed on: who has seen the mark will find the file. The rules are `core.history.truncate`'s.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from palinurus.core.history import truncate
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.tools.coerce import repair_surrogates
from palinurus.tools.whole import keep_result

MAX_IMAGE = 7_000_000  # base64 characters; providers refuse more
_INLINE = 100_000  # characters handled on the event loop; more goes to a thread
MAX_DETAILS = 64_000  # bytes of JSON kept beside a result


async def fit_content(
    content: tuple[TextBlock | ImageBlock, ...], limit: int, results: str = ""
) -> tuple[TextBlock | ImageBlock, ...]:
    """The blocks with `limit` characters of text altogether. Small clean results come back as they are.

    `results` is how the names of kept files begin (`ToolSettings.results`). If the disk does not take one, the text is
    shortened all the same and names no file.
    """
    clean = tuple(_clean(block) for block in content)
    texts = [block.text for block in clean if isinstance(block, TextBlock)]
    if sum(map(len, texts)) <= limit:
        return clean
    text = "\n".join(texts)
    short = (
        await asyncio.to_thread(_short, text, limit, results) if len(text) > _INLINE else _short(text, limit, results)
    )
    return (TextBlock(short), *(block for block in clean if isinstance(block, ImageBlock)))


def _short(text: str, limit: int, results: str) -> str:
    text = truncate.indent_json(text)
    return truncate.shorten_result(text, limit, keep_result(results, text))


def limit_details(value: Any) -> Any:
    """Details as JSON can hold them, or a note of what they were when they are too large or no JSON at all."""
    if value is None:
        return None
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        return {"omitted": f"not storable: {type(value).__name__}"}
    return value if size <= MAX_DETAILS else {"omitted": f"{size} bytes"}


def _clean(block: TextBlock | ImageBlock) -> TextBlock | ImageBlock:
    if isinstance(block, ImageBlock):
        return block if len(block.data) <= MAX_IMAGE else TextBlock(f"[image left out: {len(block.data)} characters]")
    text = repair_surrogates(block.text)
    if truncate.is_binary(text):
        return TextBlock(f"[binary data, {len(text)} characters, not shown]")
    return block if text is block.text else TextBlock(text)
