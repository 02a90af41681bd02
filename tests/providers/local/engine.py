"""A runtime that is none, in the place of the real one: speaks the child's side of the pipes through `serve`.

What it does stands in the last user message: `hello`, `call`, `slow` (until stopped), `deaf` (never stops),
`crash`, `half` (of a call, then a crash), `raise`, `overflow`, `env`. A model file that holds "bad" cannot be loaded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palinurus.providers.local.serve import EngineServer, die_with, open_private_output

CALLS = {
    "tools": '<tools>{"name": "read", "arguments": {"path": "a.txt"}}</tools>',
    "function": '<function name="read" arguments=\'{"path": "a.txt"}\'/>',
    "prose": 'Sure.\n```json\n{"name": "read", "arguments": {"path": "a.txt"}}\n```\nI will tell you.',
}


def piece(content: str | None = None, finish: str | None = None, **rest: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **rest}


def say(text: str, callback: Callable[[Any], bool]) -> None:
    for word in text.split(" "):
        callback(piece(word + " "))
    callback(piece(finish="stop"))
    callback({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})


def chat(body: dict[str, Any], callback: Callable[[Any], bool]) -> None:
    text = body["messages"][-1]["content"]
    callback(piece(prompt_progress={"total": 9, "processed": 0}))
    callback(piece(prompt_progress={"total": 9, "processed": 9, "cache": 2, "time_ms": 3200.5}))
    if text == "slow":
        while not callback(piece("tick ")):
            threading.Event().wait(0.005)
    elif text == "deaf":
        callback(piece("tick "))
        threading.Event().wait(60)
    elif text == "crash":
        callback(piece("half "))
        print("ggml: something is rotten", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
        threading.Event().wait(60)
    elif text == "raise":
        raise RuntimeError("no such template")
    elif text == "overflow":
        callback(
            {"error": {"code": 400, "message": "request (9 tokens) exceeds the available context size (8 tokens)"}}
        )
    elif text == "env":
        say(",".join(sorted(os.environ)), callback)
    elif text in CALLS:
        say(CALLS[text], callback)
    elif text == "half":
        callback(piece('I look.\n<tool_call>{"name": "read", "argum'))
        os.kill(os.getpid(), signal.SIGSEGV)
        threading.Event().wait(60)
    elif text == "call":
        say('```json\n{"name": "read", "arguments": {"path": "a.txt"}}\n```', callback)
    else:
        print("noise on the wrong stream")
        say(f"{Path(sys.argv[1]).stem} {sys.argv[2]} {text} {os.getpid()}", callback)


def main() -> None:
    out = open_private_output()
    die_with(int(sys.argv[4]))
    if "bad" in Path(sys.argv[1]).read_text(encoding="utf-8"):
        sys.exit("llama: not a model file")
    EngineServer(chat, out).run(sys.stdin.buffer)


if __name__ == "__main__":
    main()
