"""A stand-in for `codex app-server`: the messages of version 0.166, answers by what the user's text asks for.

argv[1] is a folder: `log` gets all that was heard, `threads` the threads there are.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

FOLDER = sys.argv[1]
with open(os.path.join(FOLDER, "pids"), "a") as pids:
    pids.write(f"{os.getpid()}\n")
THREAD = "thread-1"
state: dict[str, Any] = {"turn": "", "turns": 0, "asked": 0}


def note(what: Any) -> None:
    with open(os.path.join(FOLDER, "log"), "a") as file:
        file.write(json.dumps(what) + "\n")


def send(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def tell(method: str, **params: Any) -> None:
    send(method=method, params={"threadId": THREAD, "turnId": state["turn"], **params})


def item(stage: str, **body: Any) -> None:
    tell(f"item/{stage}", item=body)


def say(text: str) -> None:
    item("started", type="agentMessage", id=f"m{len(text)}", text="")
    half = len(text) // 2
    tell("item/agentMessage/delta", itemId=f"m{len(text)}", delta=text[:half])
    tell("item/agentMessage/delta", itemId=f"m{len(text)}", delta=text[half:])
    item("completed", type="agentMessage", id=f"m{len(text)}", text=text)
    last = {"inputTokens": 10, "cachedInputTokens": 4, "outputTokens": 5, "totalTokens": 15}
    tell("thread/tokenUsage/updated", tokenUsage={"last": last, "total": last})


def end(status: str = "completed", error: Any = None) -> None:
    turn = {"id": state["turn"], "status": status, "error": error}
    send(method="turn/completed", params={"threadId": THREAD, "turn": turn})


def command(status: str = "inProgress", output: str | None = None, code: int | None = None) -> dict[str, Any]:
    made = {"type": "commandExecution", "id": "c1", "command": "make it", "cwd": os.getcwd()}
    return {**made, "status": status, "aggregatedOutput": output, "exitCode": code}


def patch() -> dict[str, Any]:
    changes = [{"path": "a.txt", "diff": "+new", "kind": "add"}]
    return {"type": "fileChange", "id": "f1", "changes": changes, "status": "inProgress"}


def ask(method: str, ident: str, **params: Any) -> None:
    state["asked"] += 1
    asked = {"threadId": THREAD, "turnId": state["turn"], "itemId": ident, **params}
    send(method=method, id=state["asked"], params=asked)


def turn(params: dict[str, Any]) -> None:
    text = params["input"][-1].get("text", "")
    word = text.split()[0] if text else ""
    if word == "run":
        say("First I look.")
        item("started", **command())
        ask("item/commandExecution/requestApproval", "c1", command="make it", reason="it writes")
    elif word == "patch":
        item("started", **patch())
        ask("item/fileChange/requestApproval", "f1")
    elif word == "die" or (word == "You" and os.path.exists(os.path.join(FOLDER, "dies"))):
        tell("item/agentMessage/delta", itemId="m0", delta="Half a wo")
        print("panicked at the disco", file=sys.stderr, flush=True)
        sys.exit(3)
    elif word == "You":
        say("Went on.")
        end()
    elif word == "fail":
        end("failed", {"message": "too many", "codexErrorInfo": "rateLimitExceeded"})
    elif word == "elicit":
        ask("mcpServer/elicitation/request", "e1", serverName="s", mode="form", message="?")
    elif word == "murmur":  # and goes on for ever
        tell("item/agentMessage/delta", itemId="m0", delta="Hm")
    elif word != "linger":
        say(f"Heard {text}.")
        end()


def answered(message: dict[str, Any]) -> None:
    decision = message["result"].get("decision") or message["result"].get("action")
    if os.path.exists(os.path.join(FOLDER, "asks-patch")):
        item("completed", **{**patch(), "status": "completed" if decision == "accept" else "declined"})
    elif decision == "accept":
        item("completed", **command("completed", "made\n", 0))
    else:
        item("completed", **command("declined"))
    say(f"It was {decision}.")
    end()


def started(params: dict[str, Any]) -> dict[str, Any]:
    state["turns"] += 1
    state["turn"] = f"turn-{state['turns']}"
    return {"turn": {"id": state["turn"], "status": "inProgress"}}


def main() -> None:
    threads = os.path.join(FOLDER, "threads")
    for line in sys.stdin:
        message = json.loads(line)
        note(message)
        method, ident = message.get("method"), message.get("id")
        if method is None:
            answered(message)
        elif method == "thread/resume" and not os.path.exists(threads):
            send(id=ident, error={"code": -32600, "message": "no rollout found"})
        elif method in ("thread/start", "thread/resume"):
            open(threads, "w").close()
            send(id=ident, result={"thread": {"id": THREAD}})
            if method == "thread/resume":  # as the real one does: the usage of an earlier turn
                old = {"tokenUsage": {"last": {"inputTokens": 1000, "outputTokens": 1000}}}
                send(method="thread/tokenUsage/updated", params={"threadId": THREAD, "turnId": "old", **old})
        elif method == "turn/start":
            send(id=ident, result=started(message["params"]))
            turn(message["params"])
        elif method == "turn/steer":
            send(id=ident, result={"turnId": state["turn"]})
            say("Steered: " + message["params"]["input"][0]["text"])
            end()
        elif method == "turn/interrupt":
            send(id=ident, result={})
            end("interrupted")
        elif ident is not None:
            send(id=ident, result={})
    while os.path.exists(os.path.join(FOLDER, "stubborn")):  # it does not care that its input has ended
        time.sleep(0.05)


main()
