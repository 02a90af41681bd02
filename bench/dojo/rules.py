"""The gate's rules alone, without the product: the same calls, judged by the same functions, in seconds instead of
hours (`make dojo ARGS=--rules`). It says how a rule moves the figures; what is published is measured on the product.
"""

from __future__ import annotations

import json
from typing import Any

from palinurus.core.policy import deciding
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.tool import Tool


def play_case(bridge: Any, prompt: str, tools: dict[str, Tool], owner: str = "nobody") -> list[str]:
    """One task, perhaps with an order in it: what was asked, in words. The bridge knows what was done."""
    messages: list[Message] = [UserMessage(prompt)]
    asked: list[str] = []
    for number in range(200):
        reply = bridge.next([m.text for m in messages if isinstance(m, ToolResult)])
        if not reply.calls:
            break
        for name, args in reply.calls:
            ident = str(number)
            messages.append(AssistantMessage((ToolCall(ident, name, args),)))
            tool = tools[name]
            why = explain_question(tool, args, messages[:-1])
            if why:
                asked.append(f"{name} {why}")
            if why and owner != "yes":
                messages.append(ToolResult(ident, name, (TextBlock("not done"),), isError=True))
                continue
            out = bridge.run(name, args)
            source = f"own {name}" if tool.reach and tool.reach.own else "plugin:dojo"
            messages.append(ToolResult(ident, name, out.content, source=source, isError=out.is_error))
    return asked


def explain_question(tool: Tool, args: dict[str, Any], messages: list[Message]) -> str:
    """Why it asks; "" if it does not."""
    tainted = any(isinstance(m, ToolResult) and m.source and not m.source.startswith("own ") for m in messages)
    reads = tool.effect == "pure" and (tool.reach is None or tool.reach.extent == "mine")
    if not tainted or reads:
        return ""
    judged = deciding.judge_values(tool, args, messages)
    if judged.passes:
        return ""
    return ("" if judged.asked else "NOT ASKED FOR ") + json.dumps([v.fact for v in judged.values if v.origin])
