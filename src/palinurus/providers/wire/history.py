"""What every wire needs to send a conversation back: turns, blocks, ids and names a vendor accepts, sampling options.

Pure and deterministic: the same history gives the same bytes, or the prompt cache is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.tool import ToolSpec
from palinurus.patterns import compile_late
from palinurus.providers.wire import pick

Block: TypeAlias = dict[str, Any]
Blocks: TypeAlias = tuple[TextBlock | ImageBlock, ...]

NO_IMAGE = "[an image was here; this model cannot see images]"
NO_OUTPUT = "(no output)"
SEE_IMAGE = "(see the attached image)"
EMPTY_MESSAGE = "(empty message)"
OPENING = "(the conversation continues)"  # where a history begins with an answer
TOOL_GONE = "No longer available."  # describes a tool that only the history knows
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_SAFE = compile_late(r"[A-Za-z0-9_-]+")
_UNSAFE = compile_late(r"[^A-Za-z0-9_-]")
_ALNUM = compile_late(r"[A-Za-z0-9]+")
_NAME = compile_late(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CHOICES: dict[str, str] = {"none": "none", "required": "any", "any": "any"}


class SamplingOptions(NamedTuple):
    """How an answer is drawn; None: nobody said."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None

    def name(self, *words: str) -> dict[str, Any]:
        """What was said, under the wire's own words for the three."""
        return {word: value for word, value in zip(words, self, strict=True) if value is not None}


def read_sampling(request: ModelRequest) -> SamplingOptions:
    """What the caller asks for, else what the model's `params` say."""
    params = request.model.params
    temperature = params.get("temperature") if request.temperature is None else request.temperature
    top_p = params.get("topP") if request.top_p is None else request.top_p
    return SamplingOptions(request.max_tokens or params.get("maxTokens") or None, temperature, top_p)


ASKED_CONTROLS = ("max_tokens", "temperature", "top_p", "stop", "seed")  # what a caller may ask for
# API -> its words for `stop` and `seed`; "": it has none. An API that is not here has neither.
CONTROLS: dict[str, tuple[str, str]] = {
    "openai-completions": ("stop", "seed"),
    "anthropic-messages": ("stop_sequences", ""),
    "google-generative-ai": ("stopSequences", "seed"),
    "ollama": ("stop", "seed"),
    "bedrock-converse-stream": ("stopSequences", ""),
}


def read_controls(request: ModelRequest) -> dict[str, Any]:
    """`stop` and `seed` of a request under the words of its API, where it has them."""
    stop, seed = CONTROLS.get(request.model.api, ("", ""))
    found = {stop: list(request.stop) if request.stop else None, seed: request.seed}
    return {word: value for word, value in found.items() if word and value is not None}


def list_missing_controls(model: ModelSpec, wanted: Collection[str]) -> list[str]:
    """Which of `wanted` (ASKED_CONTROLS) the model cannot be told, as its API and its kind are."""
    stop, seed = CONTROLS.get(model.api, ("", ""))
    no_top_p = model.reasoning if model.api == "openai-responses" else model.api == "openai-codex-responses"
    if model.api == "anthropic-messages" and "temperature" in wanted:  # newer models refuse the two together
        no_top_p = True
    missing = {"stop": not stop, "seed": not seed, "top_p": no_top_p}
    return [name for name in wanted if missing.get(name)]


def read_tool_choice(choice: str | dict[str, Any]) -> tuple[str, str]:
    """auto, none, any or tool, and that tool's name: from our words, or from OpenAI's object that names a function."""
    if isinstance(choice, str):
        return _CHOICES.get(choice, "auto"), ""
    name = pick.get_text(choice, "function", "name") or pick.get_text(choice, "name")
    return ("tool", name) if name else ("auto", "")


def describe_functions(tools: Iterable[ToolSpec]) -> list[Block]:
    """Tools as Chat Completions and those that follow it describe them."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": make_object_schema(spec.parameters),
            },
        }
        for spec in tools
    ]


# --- turns and blocks -----------------------------------------------------------------------------------------


def build_turns(
    messages: Iterable[Message],
    user: Callable[[UserMessage], list[Block]],
    result: Callable[[ToolResult], list[Block]],
    answer: Callable[[AssistantMessage], list[Block]],
    *,
    opening: Block,
    is_result: Callable[[Block], bool],
) -> list[Block]:
    """Turns that alternate: what follows in the same role is joined, what has no blocks is left out. The first is
    the user's (`opening` if need be). In a user's turn results come first: they answer the turn before it."""
    turns: list[Block] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if isinstance(message, UserMessage):
            blocks = user(message)
        else:
            blocks = result(message) if isinstance(message, ToolResult) else answer(message)
        if not blocks:
            continue
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [opening]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=lambda block: not is_result(block))
    return turns or [{"role": "user", "content": [opening]}]


def gather_pictures(messages: Iterable[Message], vision: bool) -> Iterator[Message | list[ImageBlock]]:
    """The messages, and after each batch of results the pictures in them: where only a user's message can carry some,
    and results must stay together."""
    pictures: list[ImageBlock] = []
    for message in messages:
        if pictures and not isinstance(message, ToolResult):
            yield pictures
            pictures = []
        yield message
        if vision and isinstance(message, ToolResult):
            pictures += list_pictures(message.content)
    if pictures:
        yield pictures


def list_pictures(blocks: Blocks) -> list[ImageBlock]:
    """The pictures that can be sent."""
    return [block for block in blocks if isinstance(block, ImageBlock) and is_sendable(block)]


def show_blocks(
    blocks: Blocks,
    vision: bool,
    text: Callable[[str], Block],
    image: Callable[[ImageBlock], Block],
    kinds: tuple[str, ...] = IMAGES,
) -> list[Block]:
    """Each block in the wire's own form. Blank text, which most refuse, is left out; words stand for a picture that
    cannot go."""
    out: list[Block] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            out.append(image(block) if vision and is_sendable(block, kinds) else text(NO_IMAGE))
        elif not is_blank(block.text):
            out.append(text(block.text))
    return out


def is_blank(text: str) -> bool:
    """Nothing in it, or only white space."""
    return not text or text.isspace()


def join_texts(blocks: Blocks, vision: bool) -> str:
    """The blocks as text alone; images become words unless the model sees them elsewhere. Blank text is nothing."""
    shown = [
        b.text if isinstance(b, TextBlock) else NO_IMAGE
        for b in blocks
        if isinstance(b, TextBlock) or not (vision and is_sendable(b))
    ]
    text = shown[0] if len(shown) == 1 else "\n".join(shown)
    return "" if text.isspace() else text


# --- ids and names --------------------------------------------------------------------------------------------


class CallIds:
    """Ids of one request: what `make` gives, but never the same for two."""

    __slots__ = ("_given", "_make", "_taken", "names")

    def __init__(self, make: Callable[[str], str]) -> None:
        self.names: dict[str, str] = {}  # raw id -> the tool called under it: results must name the same
        self._make = make
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, raw: str) -> str:
        found = self._given.get(raw)
        if found is None:
            found = self._make(raw)
            while found in self._taken:
                found = self._make(digest_id(raw + found))
            self._taken.add(found)
            self._given[raw] = found
        return found


def make_tool_name(raw: str) -> str:
    """A name every API takes. Models invent names; what they invented is in the history for ever."""
    if _NAME.fullmatch(raw):
        return raw
    plain = _UNSAFE.sub("_", raw)[:64]
    return plain if _NAME.fullmatch(plain) else f"_{plain}"[:64]


def is_own_answer(message: AssistantMessage, model: ModelSpec) -> bool:
    """May this answer's thoughts go back there? Only where they come from, and only if the answer was complete."""
    return not message.failed and message.same_route(model.api, model.ref.provider, model.ref.model)


def is_sendable(image: ImageBlock, kinds: tuple[str, ...] = IMAGES) -> bool:
    """Can this picture be sent at all?"""
    return bool(image.data) and image.mimeType in kinds


def make_object_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """A tool's parameters with the type that every API demands."""
    return parameters if parameters.get("type") == "object" else {**parameters, "type": "object"}


def list_used_tools(messages: Iterable[Message]) -> list[str]:
    """Names of the tools a history calls. Some APIs refuse calls of tools that the request does not define."""
    return sorted({make_tool_name(call.name) for m in messages if isinstance(m, AssistantMessage) for call in m.calls})


def make_safe_ids(longest: int) -> Callable[[str], str]:
    """A function: letters, digits, _ and - up to `longest` stay; others keep a readable part and get a digest."""

    def ident(raw: str) -> str:
        if len(raw) <= longest and _SAFE.fullmatch(raw):
            return raw
        return f"{_UNSAFE.sub('_', raw)[: longest - 13]}_{digest_id(raw)[:12]}"

    return ident


def make_exact_ids(length: int) -> Callable[[str], str]:
    """A function: ids of exactly `length` letters and digits; others become a digest of that length."""

    def ident(raw: str) -> str:
        return raw if len(raw) == length and _ALNUM.fullmatch(raw) else digest_id(raw)[:length]

    return ident


def digest_id(raw: str) -> str:
    """Hexadecimal, the same for ever."""
    return hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()
