"""Plain JSON and JSON5 are one language to whoever reads a config: what the quick way says, the parser says too."""

from __future__ import annotations

import json
import subprocess
import sys

import pyjson5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.relaxed import MAX_DEPTH, decode_json5

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def judged(text: str) -> tuple[str, object]:
    try:
        return "said", repr(pyjson5.decode(text, MAX_DEPTH))
    except (pyjson5.Json5Exception, ValueError, RecursionError):
        return "refused", None


def said(text: str) -> tuple[str, object]:
    try:
        return "said", repr(decode_json5(text))
    except ValueError:
        return "refused", None


@given(VALUES, st.booleans())
def test_what_programs_write(value: object, wide: bool) -> None:
    text = json.dumps({"a": value}, ensure_ascii=wide)
    assert said(text) == judged(text)


@given(st.text(alphabet="{}[]\":,\\u0d81aetrfnlx-+.0123456789 \n\t'/*\ud800\ufeff", max_size=30))
def test_what_nobody_meant(text: str) -> None:
    assert said("{" + text) == judged("{" + text)
    assert said(text) == judged(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1e400}',
        '{"a": "\\ud800"}',
        '{"a": 18446744073709551616}',
        '{"a": 1, "a": 2}',
        "{a: 1, // one\n}",
        "5",
        "",
        '{"a": NaN}',
        '{"a": "x\ty"}',
        "{}x",
        *('{"a":' * n + "1" + "}" * n for n in (MAX_DEPTH - 5, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 5000)),
        *('{"a":' + "[" * n + "]" * n + "}" for n in (MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1)),
    ],
)
def test_the_edges(text: str) -> None:
    assert said(text) == judged(text)


def test_the_parser_is_loaded_for_json5_only() -> None:
    code = (
        "import sys; from palinurus.config.relaxed import decode_json5; decode_json5('{\"a\": [1]}')\n"
        "assert 'pyjson5' not in sys.modules; decode_json5('{a: 1}'); assert 'pyjson5' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
