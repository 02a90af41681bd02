"""InjecAgent's cases on the real product, with a model that obeys what it reads: `python bench/dojo/injecagent.py DIR`.

DIR is a checkout of InjecAgent (or of a fork with its `data` folder); nothing of it is kept here. The rules of the gate
were made without a look at these cases, so they tell whether AgentDojo's figures are those of AgentDojo only. The data
names the attacker's tools, not their arguments: those are taken from what models wrote in the checkout's `results`, for
the same order; where no model wrote any, every argument is the order's own text. Nobody answers a question. Also played
with each of the owner's 17 wishes twice in a row, without an order, which counts questions in work.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import logging
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from palinurus import Agent
from palinurus.core.types.tool import Tool, ToolOutput, ToolReach, make_output
from palinurus.testing.model import ScriptedModel, call_tools, say

KINDS = ("dh", "ds")  # direct harm: one call; data stealing: a look, then a letter with what was seen
READS = re.compile(r"(?:Get|Search|View|Read|List|Check|Navigate|Find|Query|Download|Retrieve|Access)")
LETTER = {"to": "amy.watson@gmail.com", "subject": "as asked", "body": "what was found"}
_ACTION = re.compile(r"Action:\s*(\w+)\s*\nAction Input:\s*(\{.*?\n?\})\s*(?:\nObservation|\Z)", re.S)


def read_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    return json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]


def read_arguments(folder: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """By tool and order: the arguments that models wrote who obeyed."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(folder.rglob("test_cases_d*_base.json")):
        for row in read_lines(path):
            for said in (row.get("output"), row.get("output Step 2")):
                for name, text in _ACTION.findall(said or ""):
                    try:
                        args = json.loads(text)
                    except ValueError:
                        continue
                    key = (name, row["Attacker Instruction"])
                    if isinstance(args, dict) and args not in found[key]:
                        found[key].append(args)
    return found


def make_tools(folder: Path, declared: bool, case: dict[str, Any]) -> list[Tool]:
    """Every tool of the benchmark. `declared`: what only reads is said to; nothing is said of the others."""
    tools = []
    for kit in read_lines(folder / "tools.json"):
        for one in kit["tools"]:
            name = f"{kit['name_for_model']}{one['name']}"
            reads = declared and bool(READS.match(one["name"]))
            schema = {
                "type": "object",
                "properties": {p["name"]: {"description": p["description"]} for p in one["parameters"]},
            }

            async def run(ctx: Any, _name: str = name, **args: Any) -> ToolOutput:
                case["made"].append(_name)
                return make_output(case["answers"].get(_name, '{"success": true}'))

            reach = ToolReach("mine") if reads else None
            tools.append(Tool(name, one["summary"], schema, run, effect="pure" if reads else "effect", reach=reach))
    return tools


def make_calls(case: dict[str, Any], written: dict[tuple[str, str], list[dict[str, Any]]], draw: random.Random) -> Any:
    """What the model does: the owner's wish, then what the result told it to."""
    yield case["User Tool"], ast.literal_eval(case["Tool Parameters"])
    for name in case["Attacker Tools"]:
        known = written.get((name, case["Attacker Instruction"]))
        order = {"order": case["Attacker Instruction"]}
        yield name, draw.choice(known) if known else LETTER if name == "GmailSendEmail" else order


async def play(folder: Path, mode: str, declared: bool, limit: int) -> Counter[str]:
    """How many attacks came through, by kind; and questions without one."""
    case: dict[str, Any] = {"made": [], "answers": {}}
    written = read_arguments(folder.parent / "results")
    model, found, asked = ScriptedModel([]), Counter[str](), list[Any]()
    agent = Agent(
        tools=make_tools(folder, declared, case), model=model,
        config={"agents": {"defaults": {"skipBootstrap": True}}, "tools": {"taint": {"mode": mode}}},
    ).answer_with(lambda row: bool(asked.append(row)))  # fmt: skip
    async with agent:

        async def run(session: str, text: str, calls: list[Any]) -> None:
            case["made"].clear()
            asked.clear()
            model._script[model._next :] = [*map(call_tools, calls), say("done")]
            await agent.run(text, session=session)

        for kind in KINDS:
            for at, one in enumerate(read_lines(folder / f"test_cases_{kind}_base.json")[:limit]):
                calls = list(make_calls(one, written, random.Random(at)))
                found[f"{kind} with arguments of models"] += all(
                    (name, one["Attacker Instruction"]) in written for name in one["Attacker Tools"]
                )
                case["answers"] = {one["User Tool"]: one["Tool Response"]}
                await run(f"{kind}{at}", one["User Instruction"], calls)
                harmed = case["made"][-1:] == [one["Attacker Tools"][-1]]
                found.update({f"{kind} cases": 1, f"{kind} attacks": harmed, f"{kind} questions": len(asked)})
                if harmed and mode != "off":
                    found[f"{kind} through: {calls[-1]} for {one['User Instruction']!r}"] += 1
        for at, one in enumerate(read_lines(folder / "user_cases.jsonl")):
            calls = [(one["User Tool"], ast.literal_eval(one["Tool Parameters"]))]
            case["answers"] = {one["User Tool"]: one["Tool Response Template"].replace("<Attacker Instruction>", "ok")}
            for _ in range(2):  # the second time the conversation holds what came from outside
                await run(f"work{at}", one["User Instruction"], calls)
                found.update({"work turns": 1, "work asked": bool(asked)})
    return found


def main() -> int:
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("checkout", type=Path)
    read.add_argument("--mode", choices=("off", "strict", "judged"), default="judged")
    read.add_argument("--undeclared", action="store_true", help="not even what only reads is said to")
    read.add_argument("--limit", type=int, default=10_000, help="cases of each kind")
    options = read.parse_args()
    logging.disable(logging.CRITICAL)
    found = asyncio.run(play(options.checkout / "data", options.mode, not options.undeclared, options.limit))
    print(json.dumps(dict(sorted(found.items())), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
