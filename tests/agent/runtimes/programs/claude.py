"""A stand-in for `claude -p` with JSON lines both ways: the messages of version 2.1, answers by what the text asks for.

argv[1] is a folder: `log` gets the arguments and all that was heard, a file named like a session says it exists.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

FOLDER, ARGS = sys.argv[1], sys.argv[2:]


def note(what: Any) -> None:
    with open(os.path.join(FOLDER, "log"), "a") as file:
        file.write(json.dumps(what) + "\n")


def send(kind: str, **message: Any) -> None:
    print(json.dumps({"type": kind, "parent_tool_use_id": None, **message}), flush=True)


def usage(n: int) -> dict[str, int]:
    return {"input_tokens": n, "output_tokens": n, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def assistant(*blocks: dict[str, Any], **more: Any) -> None:
    send("assistant", message={"model": "m", "content": list(blocks), "usage": usage(10)}, **more)


def say(text: str) -> None:
    send("stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": text[:3]}})
    assistant({"type": "text", "text": text})


def end(**more: Any) -> None:
    send("result", **{"subtype": "success", "is_error": False, "usage": usage(25), **more})


def heard(text: str) -> None:
    word = text.split()[0]
    if word == "run":
        say("I look.")
        assistant({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make it"}})
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make it"}, "tool_use_id": "t1"}
        send("control_request", request_id="r1", request=request)
    elif word == "die":
        say("Half")
        sys.exit(4)
    elif word == "fail":
        assistant({"type": "text", "text": "API Error"})
        end(is_error=True, api_error_status=429, result="API Error: rate limit")
    elif word == "You":
        say("Went on.")
        end()
    elif word != "linger":
        assistant({"type": "text", "text": "of a sub-agent"}, parent_tool_use_id="x")
        say(f"Heard {text}.")
        end()


def main() -> None:
    note(ARGS)
    ident = ARGS[ARGS.index("--resume") + 1] if "--resume" in ARGS else ARGS[ARGS.index("--session-id") + 1]
    mine = os.path.join(FOLDER, ident)
    if "--resume" in ARGS and not os.path.exists(mine):
        print(f"No conversation found with session ID: {ident}", file=sys.stderr)
        sys.exit(1)
    open(mine, "w").close()
    for line in sys.stdin:
        message = json.loads(line)
        note(message)
        if message["type"] == "user":
            heard(message["message"]["content"][-1]["text"])
        elif message["type"] == "control_response":
            told = message["response"]["response"]
            allowed = told["behavior"] == "allow"
            block = {"type": "tool_result", "tool_use_id": "t1", "content": "made" if allowed else told["message"]}
            send("user", message={"content": [{**block, "is_error": not allowed}]})
            say(f"It was {told['behavior']}.")
            end()
        elif message["type"] == "control_request":  # interrupt
            end(subtype="error_during_execution", is_error=True)


main()
