"""llm-task: a model's answer to one question as JSON that fits a schema, for workflows. Made where the owner enables it
(`plugins.entries.llm-task`), as OpenClaw has it; the port does the asking."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import msgspec

from palinurus.core.jsonschema import list_unsupported
from palinurus.core.structured import LLM_TASK, CheckedAnswer, StructuredTask
from palinurus.core.types.inbound import AnswerForm
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.define import bind_tools, define_tool


class TaskPort(Protocol):
    """Who asks the model."""

    async def complete(self, task: StructuredTask, agent: str, session: str) -> tuple[CheckedAnswer, str]:
        """The answer and the model that gave it. Raises ToolFailure."""
        ...


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    prompt: Annotated[str, "What to do"]
    input: Annotated[Any, "Data to work on, any JSON"] = None
    schema: Annotated[dict[str, Any] | None, "JSON schema of the answer; without one any object"] = None
    provider: str = ""
    model: Annotated[str, "A model, or provider/model"] = ""
    thinking: Annotated[str, "A thinking level the model has"] = ""
    temperature: float | None = None
    maxTokens: int | None = None
    timeoutMs: int | None = None


@define_tool(LLM_TASK, effect="idempotent", summary=("prompt",))
async def _run_task(port: TaskPort, /, ctx: ToolContext, args: TaskArguments) -> ToolOutput:
    """Have a model answer one question with JSON that fits a schema: no tools, no conversation. The answer is checked
    and asked for again until it fits."""
    if args.schema is not None and (wrong := list_unsupported(args.schema)):
        raise ToolFailure(f"schema: {'; '.join(wrong)}")
    task = StructuredTask(
        *(args.prompt, AnswerForm(args.schema), args.input, args.provider),
        model=args.model,
        thinking=args.thinking,
        temperature=args.temperature,
        max_tokens=args.maxTokens,
        timeout_ms=args.timeoutMs,
    )
    found, who = await port.complete(task, ctx.agent, ctx.session)
    return make_output(found.text, {"json": found.value, "model": who})


def make_task_tool(port: TaskPort) -> dict[str, Tool]:
    """The tool, by its name."""
    return bind_tools((_run_task,), port)
