"""Single forms, where the scan's tables do not reach."""

from __future__ import annotations

import pytest

from core.calls.kit import TOOLS, spec, told
from palinurus.core.calls.forms import (
    MAX_CALLS,
    CallableTools,
    parse_bare,
    parse_fenced,
    parse_function_tag,
    parse_hermes,
    parse_llama,
    parse_mistral,
    parse_pythonic,
)
from palinurus.core.types.tool import ToolSpec

OFFER = CallableTools(TOOLS)


def test_a_marked_call_that_cannot_be_read_is_told_to_the_model() -> None:
    shown, calls = told('<tool_call>{"name": "read", "arguments": {"path": @@}}</tool_call>')
    assert shown == ""
    assert [(c.name, c.arguments, c.invalid) for c in calls] == [("read", {}, "the arguments are not valid JSON")]


def test_arguments_that_are_no_object_are_told_to_the_model() -> None:
    form = parse_hermes('{"name": "read", "arguments": [1]}', 0, OFFER)
    assert form is not None and form.calls[0].invalid == "the arguments must be a JSON object"
    assert parse_bare('{"name": "read", "arguments": [1]}', 0, OFFER) is None


@pytest.mark.parametrize("arguments", ["null", '""', "{}"])
def test_no_arguments(arguments: str) -> None:
    form = parse_bare(f'{{"name": "ls", "arguments": {arguments}}}', 0, OFFER)
    assert form is not None and form.calls[0].arguments == {}


def test_a_tool_that_takes_a_schema_may_be_called_with_one() -> None:
    offer = CallableTools([ToolSpec("make", "", {"properties": {"type": {}, "properties": {}}})])
    form = parse_bare('{"name": "make", "arguments": {"type": "object", "properties": {}}}', 0, offer)
    assert form is not None and form.calls[0].name == "make"


def test_names_with_dots_and_dashes() -> None:
    offer = CallableTools([spec("mcp.get-it", q="string")])
    form = parse_function_tag("<function=mcp.get-it><parameter=q>1</parameter></function>", 0, offer)
    assert form is not None and form.calls[0].arguments == {"q": "1"}
    dotted = CallableTools([spec("box.open", q="string")])
    form = parse_pythonic("[box.open(q='1')]", 0, dotted)
    assert form is not None and form.calls[0].name == "box.open"


@pytest.mark.parametrize("text", ["[read(**x)]", "[read(path=f())]", "[read(path=b'x')]", "[read(path=a)]", "[", "[]"])
def test_code_is_no_call(text: str) -> None:
    assert parse_pythonic(text, 0, OFFER) is None


def test_more_calls_than_anyone_makes_are_none() -> None:
    text = "[" + ",".join(['{"name": "ls", "arguments": {}}'] * (MAX_CALLS + 1)) + "]"
    assert parse_bare(text, 0, OFFER) is None


def test_cut_calls_say_so() -> None:
    for form in (
        parse_hermes('{"name": "ls", "arguments": {"path": "/a', 0, OFFER),
        parse_function_tag("<function=ls><parameter=path>/a", 0, OFFER),
        parse_llama('{"name": "ls", "parameters": {"path": "/a', 0, OFFER),
        parse_mistral('ls{"path": "/a', 0, OFFER),
        parse_fenced('{"name": "ls", "arguments": {"path": "/a', 0, OFFER),
    ):
        assert form is not None
        assert form.calls[0].cut
        assert form.calls[0].arguments == {"path": "/a"}


def test_a_closed_call_is_not_cut() -> None:
    form = parse_function_tag("<function=ls><parameter=path>/a</parameter></function>", 0, OFFER)
    assert form is not None and not form.calls[0].cut


@pytest.mark.parametrize("wrap", ["{}", "<tool_call>{}</tool_call>", "```json\n{}\n```"])
def test_doubled_braces_as_small_models_copy_them(wrap: str) -> None:
    shown, calls = told(wrap.replace("{}", '{{"name": "ls", "arguments": {"path": "."}}}'))
    assert shown.strip() == "" and [(c.name, c.arguments) for c in calls] == [("ls", {"path": "."})]
