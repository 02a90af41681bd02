"""A model that plays a script in a browser: refs are named by what the last snapshot called them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.testing.model import ScriptedModel, ScriptStep, call_tools, resolve_step, say

CHROMIUM = next(
    (path for path in ("/usr/lib/chromium/chromium",) if shutil.which(path)), shutil.which("chromium") or ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this machine")
_REFS = ("ref", "startRef", "endRef", "inputRef")
_PROOF = re.compile(r"proof-\w+-\d+")


def results(request: Any) -> list[ToolResult]:
    return [message for message in request.messages if isinstance(message, ToolResult)]


def find_ref(request: Any, words: str) -> str:
    """`button Save` or `textbox`: the ref of the first line of the latest snapshot that begins so."""
    role, _, name = words.partition(" ")
    wanted = re.compile(rf'- {re.escape(role)} "?{re.escape(name)}[^\n]*?\[ref=(e\d+)\]')
    for result in reversed(results(request)):
        told = json.loads(result.text) if result.text.startswith("{") else {}
        for text in (told.get("snapshot"), told.get("changed")):
            if text and (found := wanted.search(text)):
                return found[1]
    raise LookupError(f"no {words!r} in\n" + "\n".join(r.text for r in results(request)[-2:]))


def step(action: str, **args: Any) -> ScriptStep:
    """One call; `@words` stands for a ref."""

    def make(request: Any) -> Any:
        def fill(value: Any) -> Any:
            if isinstance(value, list):
                return [fill(one) for one in value]
            if isinstance(value, dict):
                return {k: fill(v) for k, v in value.items()}
            return find_ref(request, value[1:]) if isinstance(value, str) and value.startswith("@") else value

        return call_tools(("browser", {"action": action, **fill(args)}))

    return make


def act(kind: str, **args: Any) -> ScriptStep:
    patience = {"timeoutMs": 60_000} if kind == "wait" else {}
    return step("act", kind=kind, **patience, **args)


def tell_proof(request: Any) -> Any:
    """The model's answer: the proof that it has seen last."""
    for result in reversed(results(request)):
        if found := _PROOF.findall(result.text):
            return say(found[-1])
    return say("no proof: " + results(request)[-1].text[:1500])


def make_player(scripts: Mapping[str, Sequence[ScriptStep]]) -> ScriptedModel:
    """One script for each beginning of a message; which step is next, the conversation tells."""

    def answer(request: Any) -> Any:
        start = max(at for at, message in enumerate(request.messages) if isinstance(message, UserMessage))
        said = request.messages[start].text
        steps = next(steps for words, steps in scripts.items() if words in said)
        done = sum(isinstance(message, ToolResult) for message in request.messages[start:])
        if done >= len(steps):
            return tell_proof(request)
        try:
            return resolve_step(steps[done], request)
        except LookupError as exc:
            return say(f"no proof: {exc}")

    return ScriptedModel([answer], repeat=True)
