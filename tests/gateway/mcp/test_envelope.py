"""What a request of the revision without sessions says of itself, and what its headers repeat."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.gateway.mcp.envelope import check_arguments_in_headers, decode_header, is_stateless
from palinurus.gateway.mcp.face import McpFault

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
        "on": {"type": "boolean", "x-mcp-header": "On"},
    },
}


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("plain", "plain"),
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64?SGVsbG8?=", None),
        ("=?base64?SGVs!!!bG8=?=", None),
        ("=?base64?/w==?=", None),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
    ],
)
def test_what_no_header_can_hold_comes_in_base64(value: str, meant: str | None) -> None:
    assert decode_header(value) == meant


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"Mcp-Param-Region": "eu"}, True),
        ({"region": "eu"}, {}, False),
        ({"region": "eu"}, {"Mcp-Param-Region": "us"}, False),
        ({}, {"Mcp-Param-Region": "eu"}, False),
        ({"deep": {"count": 42}}, {"Mcp-Param-Count": "42.0"}, True),
        ({"deep": {"count": 42}}, {"Mcp-Param-Count": "4e1"}, False),
        ({"deep": 3}, {}, True),
        ({"on": True}, {"Mcp-Param-On": "true"}, True),
        ({"on": True}, {"Mcp-Param-On": "True"}, False),
    ],
)
def test_headers_repeat_arguments(arguments: dict[str, Any], headers: dict[str, str], fits: bool) -> None:
    if fits:
        check_arguments_in_headers(SCHEMA, arguments, headers)
        return
    with pytest.raises(McpFault) as refused:
        check_arguments_in_headers(SCHEMA, arguments, headers)
    assert refused.value.code == -32020


@pytest.mark.parametrize(
    ("message", "version", "alone"),
    [
        ({"method": "initialize"}, "", False),
        ({"method": "tools/list"}, "2025-11-25", False),
        ({"method": "tools/list"}, "2026-07-28", True),
        ({"method": "tools/list"}, "2999-01-01", True),
        ({"params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}, "", True),
        ([], "", False),
    ],
)
def test_which_revision_it_is(message: Any, version: str, alone: bool) -> None:
    assert is_stateless(message, version) is alone
