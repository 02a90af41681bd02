"""Tools, resources and prompts with the names that the MCP conformance suite asks for. Everything that speaks the
protocol is our server's; here are only the words."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from typing import Any

from palinurus import tool
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.plugins.api import PluginApi
from palinurus.plugins.peer import MCP_CONTENT, McpPeer, PluginPrompt, PluginResource, PromptArgument, find_mcp_peer


def make_png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


PNG = base64.b64encode(make_png()).decode()
WAV = base64.b64encode(
    b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data" + struct.pack("<I", 0)
).decode()  # fmt: skip
CHOICES = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS = {
    "untitledSingle": {"type": "string", "enum": CHOICES},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": CHOICES}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
USER = {"username": {"type": "string"}, "email": {"type": "string"}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def find_caller() -> McpPeer:
    """Who called by MCP."""
    peer = find_mcp_peer()
    if peer is None:
        raise ToolFailure("nobody called this by MCP")
    return peer


def make_output(*content: dict[str, Any]) -> ToolOutput:
    """Blocks that only MCP has."""
    return ToolOutput((TextBlock("for other agents"),), {MCP_CONTENT: list(content)})


def embed(uri: str, mime: str, text: str) -> dict[str, Any]:
    """A resource inside of something else."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}}


async def ask_form(message: str, fields: dict[str, Any], needed: list[str]) -> str:
    """What the person at the other end answers."""
    told = await find_caller().elicit(message, {"type": "object", "properties": fields, "required": needed})
    return f"action={told.get('action')}, content={json.dumps(told.get('content'))}"


@tool(effect="pure")
def test_simple_text() -> str:
    """Returns text."""
    return "This is a simple text response for testing."


@tool(effect="pure")
def test_image_content() -> ToolOutput:
    """Returns a picture."""
    return ToolOutput((ImageBlock(PNG, "image/png"),))


@tool(effect="pure")
def test_audio_content() -> ToolOutput:
    """Returns sound."""
    return make_output({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool(effect="pure")
def test_embedded_resource() -> ToolOutput:
    """Returns a resource."""
    return make_output(embed("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool(effect="pure")
def test_multiple_content_types() -> ToolOutput:
    """Returns several kinds."""
    text = {"type": "text", "text": "Multiple content types test:"}
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    inside = embed("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return make_output(text, image, inside)


@tool(effect="pure")
async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Says what it does."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.update(words)
        await asyncio.sleep(0.05)
    return "logged"


@tool(effect="pure")
async def test_tool_with_progress() -> str:
    """Says how far it is."""
    for done in (0, 50, 100):
        find_caller().progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@tool(effect="pure")
def test_error_handling() -> str:
    """Fails."""
    raise ToolFailure("This tool intentionally returns an error for testing")


@tool(effect="pure")
async def test_sampling(prompt: str) -> str:
    """Borrows the caller's model."""
    said = {"role": "user", "content": {"type": "text", "text": prompt}}
    told = await find_caller().sample([said], 100)
    return f"LLM response: {told['content'].get('text')}"


@tool(effect="pure")
async def test_elicitation(message: str) -> str:
    """Asks the caller's person."""
    return f"User response: {await ask_form(message, USER, ['username', 'email'])}"


@tool(effect="pure")
async def test_elicitation_sep1034_defaults() -> str:
    """Asks with defaults."""
    return f"Elicitation completed: {await ask_form('Please review', DEFAULTS, [])}"


@tool(effect="pure")
async def test_elicitation_sep1330_enums() -> str:
    """Asks for choices."""
    return f"Elicitation completed: {await ask_form('Please choose', ENUMS, [])}"


@tool(effect="pure")
async def test_reconnection() -> str:
    """Lets the caller hang up and come back."""
    find_caller().rest()
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


NAME = {"name": {"type": "string"}}


async def ask_name(message: str) -> str:
    """What they are called."""
    form = {"type": "object", "properties": NAME, "required": ["name"]}
    told = await find_caller().elicit(message, form, "user_name")
    return str((told.get("content") or {}).get("name"))


async def borrow(words: str) -> str:
    """What the caller's model says."""
    said = {"role": "user", "content": {"type": "text", "text": words}}
    return str((await find_caller().sample([said], 100))["content"].get("text"))


@tool(effect="pure")
async def test_input_required_result_elicitation() -> str:
    """Asks the caller's person."""
    return f"Hello, {await ask_name('What is your name?')}!"


@tool(effect="pure")
async def test_input_required_result_sampling() -> str:
    """Borrows the caller's model."""
    return await borrow("What is the capital of France?")


@tool(effect="pure")
async def test_input_required_result_list_roots() -> str:
    """Looks which folders the caller opened."""
    return json.dumps(await find_caller().roots())


@tool(effect="pure")
async def test_input_required_result_request_state() -> str:
    """Asks for a yes."""
    return f"state-ok: {await ask_form('Please confirm', {'ok': {'type': 'boolean'}}, ['ok'])}"


@tool(effect="pure")
async def test_input_required_result_tampered_state() -> str:
    """The same."""
    return f"confirmed: {await ask_form('Please confirm', {'ok': {'type': 'boolean'}}, ['ok'])}"


@tool(effect="pure")
async def test_input_required_result_multiple_inputs() -> str:
    """Asks person, model and folders at once."""
    asked = (ask_name("What is your name?"), borrow("Generate a greeting"), find_caller().roots())
    return json.dumps(await asyncio.gather(*asked))


@tool(effect="pure")
async def test_input_required_result_multi_round() -> str:
    """Asks twice."""
    name = await ask_name("Step 1: What is your name?")
    colour = await ask_form("Step 2: Which colour?", {"color": {"type": "string"}}, ["color"])
    return f"{name} {colour}"


@tool(effect="pure")
async def test_input_required_result_capabilities() -> str:
    """Asks whom it can."""
    caller = find_caller()
    if caller.can("elicitation"):
        return await ask_name("What is your name?")
    return await borrow("Say hello") if caller.can("sampling") else "nobody can be asked"


@tool(effect="pure")
async def test_missing_capability() -> str:
    """Needs the caller's model."""
    return await borrow("Say hello")


@tool(effect="pure")
async def test_streaming_elicitation() -> str:
    """Says how far it is, then asks."""
    find_caller().progress(1, 2)
    return await ask_name("What is your name?")


@tool(effect="pure")
async def test_logging_tool() -> str:
    """Says something for the log."""
    find_caller().log("info", "working")
    return "logged"


@tool(effect="pure")
def greet(name: str) -> str:
    """Says hello, at once."""
    return f"Hello, {name}!"


@tool(effect="pure")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes that long."""
    if seconds:
        find_caller().defer()
    await asyncio.sleep(seconds)
    return f"{label} took {seconds:g} s"


@tool(effect="pure")
async def failing_job() -> str:
    """Fails, a second later."""
    find_caller().defer(needed=True)
    await asyncio.sleep(1)
    raise ToolFailure("This job always fails")


@tool(effect="pure")
async def protocol_error_job() -> str:
    """Needs what the caller did not say it has."""
    find_caller().defer(needed=True)
    return str(await find_caller().roots())


CONFIRM = {"confirm": {"type": "boolean"}}


@tool(effect="pure")
async def confirm_delete(filename: str) -> str:
    """Asks while it goes on."""
    find_caller().defer(needed=True)
    return await ask_form(f"Delete {filename}?", CONFIRM, ["confirm"])


@tool(effect="pure")
async def multi_input() -> str:
    """Asks two things at once while it goes on."""
    find_caller().defer(needed=True)
    return " ".join(await asyncio.gather(ask_name("First?"), ask_name("Second?")))


@tool(effect="pure")
async def test_tool_with_task() -> str:
    """Asks, and then takes long."""
    name = await ask_name("What is your name?")
    find_caller().defer(needed=True)
    return f"Hello, {name}!"


async def ask_prompt() -> str:
    """A prompt that needs to know something first."""
    told = await ask_form("What context should the prompt use?", {"context": {"type": "string"}}, ["context"])
    return f"Use this: {told}"


def describe(id: str) -> str:
    """The body of a resource that is a pattern."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def make_messages(*content: dict[str, Any]) -> list[dict[str, Any]]:
    """A prompt of several parts."""
    return [{"role": "user", "content": one} for one in content]


def embed_prompt(resourceUri: str) -> list[dict[str, Any]]:
    """A prompt with a resource in it."""
    asked = {"type": "text", "text": "Please process the embedded resource above."}
    return make_messages(embed(resourceUri, "text/plain", "Embedded resource content for testing."), asked)


def show_prompt() -> list[dict[str, Any]]:
    """A prompt with a picture in it."""
    asked = {"type": "text", "text": "Please analyze the image above."}
    return make_messages({"type": "image", "data": PNG, "mimeType": "image/png"}, asked)


TOOLS = (
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_tool_with_logging,
    test_tool_with_progress,
    test_error_handling,
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_reconnection,
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_missing_capability,
    test_streaming_elicitation,
    test_logging_tool,
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    multi_input,
    test_tool_with_task,
    Tool(
        "test_headers",
        "Tool whose argument is repeated in a header",
        {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
        lambda ctx, **_: make_output({"type": "text", "text": "ok"}),
        effect="pure",
    ),
    Tool(
        "json_schema_2020_12_tool",
        "Tool with JSON Schema 2020-12 features",
        SCHEMA,
        lambda ctx, **_: make_output({"type": "text", "text": "ok"}),
        effect="pure",
    ),
)
STATIC = "This is the content of the static text resource."
ARGUMENTS = (PromptArgument("arg1", "First", True, ("test", "tests")), PromptArgument("arg2", "Second", True))


def register(api: PluginApi) -> None:
    """Say what the plugin brings."""
    for one in TOOLS:
        api.tool(one)
    api.resource(PluginResource("test://static-text", "Static text", lambda: STATIC, "A text"))
    api.resource(PluginResource("test://static-binary", "Static binary", make_png, "A picture", "image/png"))
    api.resource(PluginResource("test://watched-resource", "Watched", lambda: "watched", "It may change"))
    api.resource(PluginResource("test://template/{id}/data", "By id", describe, "A pattern", "application/json"))
    api.prompt(PluginPrompt("test_simple_prompt", "Simple", lambda: "This is a simple prompt for testing."))
    api.prompt(
        PluginPrompt(
            "test_prompt_with_arguments",
            "With arguments",
            lambda arg1, arg2: f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
            ARGUMENTS,
        )
    )
    api.prompt(PluginPrompt("test_input_required_result_prompt", "Asks first", ask_prompt))
    needs = (PromptArgument("resourceUri", "What to embed", True),)
    api.prompt(PluginPrompt("test_prompt_with_embedded_resource", "With a resource", embed_prompt, needs))
    api.prompt(PluginPrompt("test_prompt_with_image", "With a picture", show_prompt))
