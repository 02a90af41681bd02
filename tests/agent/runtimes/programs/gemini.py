"""A stand-in for a program that speaks the Agent Client Protocol. argv[1] is a folder: `log` gets all that was heard,
`session` says that the session can be loaded."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

FOLDER = sys.argv[1]
prompts: list[Any] = []


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(sort: str, **body: Any) -> None:
    params = {"sessionId": "s-1", "update": {"sessionUpdate": sort, **body}}
    send(method="session/update", params=params)


def say(text: str) -> None:
    for piece in (text[:3], text[3:]):
        update("agent_message_chunk", content={"type": "text", "text": piece})


def end(why: str = "end_turn") -> None:
    send(id=prompts.pop(), result={"stopReason": why})


def prompted(text: str) -> None:
    word = text.split()[0]
    if word == "run":
        say("I look.")
        call = {"toolCallId": "t1", "title": "make it", "kind": "execute", "rawInput": {"command": "make it"}}
        update("tool_call", status="pending", **call)
        options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
        ask = {"sessionId": "s-1", "toolCall": {"toolCallId": "t1"}, "options": options}
        send(id=77, method="session/request_permission", params=ask)
    elif word == "refuse":
        end("refusal")
    elif word != "linger":
        update("agent_thought_chunk", content={"type": "text", "text": "Hm."})
        say(f"Heard {text}.")
        end()


def answered(message: dict[str, Any]) -> None:
    allowed = message["result"]["outcome"].get("optionId") == "y"
    block = {"type": "content", "content": {"type": "text", "text": "made" if allowed else "no"}}
    update("tool_call_update", toolCallId="t1", status="completed" if allowed else "failed", content=[block])
    say("Done." if allowed else "Not done.")
    end()


def main() -> None:
    kept = os.path.join(FOLDER, "session")
    for line in sys.stdin:
        message = json.loads(line)
        with open(os.path.join(FOLDER, "log"), "a") as file:
            file.write(line)
        method, ident = message.get("method"), message.get("id")
        if method is None:
            answered(message)
        elif method == "initialize":
            send(id=ident, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        elif method == "session/new":
            open(kept, "w").close()
            send(id=ident, result={"sessionId": "s-1"})
        elif method == "session/load" and os.path.exists(kept):
            say("Of an earlier turn.")
            send(id=ident, result={})
        elif method == "session/prompt":
            prompts.append(ident)
            prompted(message["params"]["prompt"][-1]["text"])
        elif method == "session/cancel":
            end("cancelled")
        elif ident is not None:
            send(id=ident, error={"code": -32602, "message": "unknown session"})


main()
