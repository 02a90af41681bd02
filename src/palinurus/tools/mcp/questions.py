"""What a server asks back while one of its tools runs (elicitation), put to the person by the one way for questions.

A yes sends what the server itself suggests (its defaults, its page to open): there is no form to type into. What cannot
be answered that way is declined; without a person nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.sampling import SamplerPort, SamplingAnswer, SamplingRequest
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.core.untrusted import clean_label
from palinurus.tools.taint import make_approval_request

MAX_FIELDS = 20
MAX_SAMPLED = 6_000  # characters that a card shows whole
ElicitationAction: TypeAlias = Literal["accept", "decline", "cancel"]


class McpQuestion(msgspec.Struct, frozen=True):
    """What the server wants to know: a form (`schema`), or that a page is opened (`url`). All of it is the server's."""

    message: str
    schema: Mapping[str, Any] = {}
    url: str = ""


class McpAnswer(msgspec.Struct, frozen=True):
    action: ElicitationAction
    content: dict[str, Any] | None = None


async def put_question(ctx: ToolContext, server: str, tool: str, question: McpQuestion) -> McpAnswer:
    """The person's answer."""
    filled = fill_form(question.schema)
    if not question.url and filled is None:
        return McpAnswer("decline")  # it wants something typed, and nobody can type here
    facts = [("asks", clean_label(question.message, 500))]
    if question.url:
        facts.append(("open this page, then allow", clean_label(question.url, 500)))
    facts += [
        (f"sends {clean_label(name, 60)}", clean_label(str(value), 200)) for name, value in (filled or {}).items()
    ]
    try:
        ask = make_approval_request(
            ctx,
            "the question is too long to be shown",
            kind="tool",
            tool=tool,
            title=f"The MCP server {clean_label(server, 40)} asks you something",
            binding={"question": question.message, "url": question.url, "answer": str(filled)},
            why="servers ask people, not models",
            warning="The words are the server's. Type no secret anywhere because of them.",
            allowed=("allow-once", "deny"),
            facts=tuple(facts),
        )
    except ToolFailure:
        return McpAnswer("decline")
    answer = await ctx.ask(ask)
    if not answer.allowed:
        return McpAnswer("decline" if answer.decision == "deny" else "cancel")
    return McpAnswer("accept", None if question.url else filled)


async def put_sampling(
    ctx: ToolContext, server: str, tool: str, sampler: SamplerPort | None, request: SamplingRequest
) -> SamplingAnswer:
    """What a model of ours says to a server's words, once the person has read them. Raises ToolFailure."""
    if sampler is None:
        raise ToolFailure("no model is lent here")
    chars = len(request.system) + sum(len(text) for _, text in request.messages)
    if chars > MAX_SAMPLED:
        raise ToolFailure(f"at most {MAX_SAMPLED} characters are passed on to a model")
    model = sampler.choose(request, ctx.agent)
    said = [("system", request.system), *request.messages] if request.system else request.messages
    facts = [(f"{role} says", clean_label(text, MAX_SAMPLED)) for role, text in said]
    facts.append(("model", f"{model}, at most {request.max_tokens} tokens; the budget of this session pays"))
    ask = make_approval_request(
        ctx,
        "what the server wants asked is too long to be shown",
        kind="tool",
        tool=tool,
        title=f"The MCP server {clean_label(server, 40)} wants to ask your model something",
        binding={"messages": str(said), "model": model},
        why="servers borrow a model only with your leave; they get its answer, and nothing of this conversation",
        warning="The words are the server's.",
        allowed=("allow-once", "deny"),
        facts=tuple(facts),
    )
    if not (await ctx.ask(ask)).allowed:
        raise ToolFailure("the person does not lend a model for this")
    return await sampler.sample(request, ctx.agent, ctx.session)


def fill_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a yes says: every field's default, true for a question of yes or no, the only choice there is. None: a field
    that is needed has to be typed."""
    fields, needed = schema.get("properties"), schema.get("required")
    fields = fields if isinstance(fields, Mapping) else {}
    needed = needed if isinstance(needed, list) else []
    if len(fields) > MAX_FIELDS:
        return None
    filled: dict[str, Any] = {}
    for name, about in fields.items():
        about = about if isinstance(about, Mapping) else {}
        choices = about.get("enum")
        if "default" in about:
            filled[str(name)] = about["default"]
        elif about.get("type") == "boolean" and name in needed:
            filled[str(name)] = True
        elif isinstance(choices, list) and len(choices) == 1:
            filled[str(name)] = choices[0]
        elif name in needed:
            return None
    return filled
