"""Every method of OpenAI's own client, called once with something made up: whatever the gateway says to one of them is
an answer or a refusal in OpenAI's form. Used by the row of `make compat` and, with the client that the tests have, by
`tests/gateway/openai/test_models.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import openai

SOUND = ("a.wav", b"RIFF")
GIVEN: dict[str, Any] = {
    "model": "openclaw",
    "input": "SAY x",
    "messages": [{"role": "user", "content": "SAY x"}],
    "items": [{"role": "user", "content": "x"}],
    "item_id": "msg_x",
    "metadata": {},
    "timeout": 5.0,
    **dict.fromkeys(("file", "image", "data", "video", "audio_sample", "recording"), SOUND),
    "files": [SOUND],
    "bytes": 4,
    "file_ids": ["x"],
    "tool_outputs": [],
    "steps": [],
    "max_wait_seconds": 1.0,
    "headers": {},
    "text_format": None,
}
WORDS = ("message", "type", "param", "code")


class Heard(NamedTuple):
    """What one method was told: statuses, and what is wrong with them."""

    name: str
    statuses: tuple[int, ...]
    wrong: str


def walk(base: str, key: str) -> Iterator[Heard]:
    """All methods; those of `connect` are WebSockets and are left out."""
    said: list[Any] = []

    def hear(response: Any) -> None:
        response.read()
        said.append(response)

    with openai.DefaultHttpxClient(event_hooks={"response": [hear]}, timeout=60) as line:
        client = openai.OpenAI(base_url=base, api_key=key, admin_api_key=key, max_retries=0, http_client=line)
        for name, method in list_methods(client, ""):
            said.clear()
            _call(method)
            wrong = [text for one in said if (text := find_wrong(one))]
            yield Heard(name, tuple(one.status_code for one in said), "; ".join(wrong))


def list_methods(part: Any, path: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names with dots, and what they call."""
    ours = dir(openai._base_client.SyncAPIClient) if not path else []
    for name in sorted(dir(type(part))):
        if name.startswith(("_", "with_")) or name == "connect" or name in ours:
            continue
        found = getattr(part, name)
        if isinstance(found, openai._resource.SyncAPIResource):
            yield from list_methods(found, f"{path}{name}.")
        elif path and callable(found):
            yield path + name, found


def _call(method: Callable[..., Any]) -> None:
    """Whatever the client makes of the answer: the answer itself is looked at."""
    names = {
        one.name
        for one in inspect.signature(method).parameters.values()
        if (one.default is one.empty or one.name in ("input", "model"))
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    for _ in range(2):
        with suppress(Exception):
            try:
                made = method(**{name: GIVEN.get(name, "x") for name in names})
            except TypeError as error:
                names |= set(re.findall(r"'(\w+)'", str(error).partition("Expected either")[2].partition(")")[0]))
                continue
            with made if isinstance(made, AbstractContextManager) else nullcontext(made) as opened:
                list(opened)
        return


def find_wrong(answer: Any) -> str:
    """What is wrong with an answer's form; "" if nothing is."""
    where = f"{answer.request.method} {answer.request.url.path} {answer.status_code}"
    kind = answer.headers.get("content-type", "")
    if answer.status_code < 400:
        return "" if kind.startswith(("application/json", "text/event-stream", "audio/")) else f"{where}: {kind}"
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"{where}: no error object: {answer.text[:200]}"
    if sorted(error) != sorted(WORDS) or not error["message"] or not error["type"] or not error["code"]:
        return f"{where}: {error}"
    if error["code"] in ("not_found", "internal"):
        return f"{where}: does not say what to do: {error}"
    return where if answer.status_code >= 500 and answer.status_code != 503 else ""
