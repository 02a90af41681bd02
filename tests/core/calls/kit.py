"""What the tests of written calls share: tools on offer, and one answer fed in pieces."""

from __future__ import annotations

import itertools

from palinurus.core.calls.forms import CallableTools, TextCall
from palinurus.core.calls.scan import AnswerSegment, TextCallScanner
from palinurus.core.types.tool import ToolSpec


def spec(name: str, **properties: str) -> ToolSpec:
    return ToolSpec(name, name, {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}})


TOOLS = (
    spec("read", path="string", limit="integer"),
    spec("write", path="string", content="string"),
    spec("ls", path="string"),
    spec("exec", command="string", paths="array"),
)


def told(text: str, cuts: list[int] | None = None) -> tuple[str, list[TextCall]]:
    """(all text that was let through, the calls), fed in pieces that end at `cuts`."""
    scan = TextCallScanner(CallableTools(TOOLS))
    places = [0, *sorted(cuts or []), len(text)]
    shown = "".join(scan.feed(text[a:b]) for a, b in itertools.pairwise(places))
    rest: list[AnswerSegment] = scan.close()
    return shown + "".join(s for s in rest if isinstance(s, str)), [s for s in rest if isinstance(s, TextCall)]


# (what a model wrote, the calls it meant, the text around them)
POSITIVES: list[tuple[str, list[tuple[str, dict[str, object]]], str]] = [
    ('<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>', [("read", {"path": "a.txt"})], ""),
    (
        'Sure.\n<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>\n'
        '<tool_call>{"name": "ls", "arguments": {}}</tool_call>',
        [("read", {"path": "a"}), ("ls", {})],
        "Sure.\n",
    ),
    (
        '<tool_call>{"name": "ls", "arguments": {}}</tool_call>\nDone soon.',
        [("ls", {})],
        "\nDone soon.",
    ),
    ('<tool_call>{"name": "read", "arguments": {"path": "a.txt"}', [("read", {"path": "a.txt"})], ""),
    ('<tool_call>{"name": "read", "path": "a.txt"}</tool_call>', [("read", {"path": "a.txt"})], ""),
    (
        "<tool_call>{'name': 'read', 'arguments': {'path': \"it's\", 'limit': None,}}</tool_call>",
        [("read", {"path": "it's", "limit": None})],
        "",
    ),
    (
        "<tool_call><function=write><parameter=path>\na.py\n</parameter><parameter=content>\n"
        'x = [1]\nprint("<b>")\n</parameter></function></tool_call>',
        [("write", {"path": "a.py", "content": 'x = [1]\nprint("<b>")'})],
        "",
    ),
    (
        '<function=exec><parameter=paths>["a", "b"]</parameter></function>',
        [("exec", {"paths": ["a", "b"]})],
        "",
    ),
    ('<function=read>{"path": "x"}</function>', [("read", {"path": "x"})], ""),
    (
        '<|python_tag|>{"name": "ls", "parameters": {"path": "."}}; '
        '{"name": "read", "parameters": {"path": "b"}}<|eom_id|>',
        [("ls", {"path": "."}), ("read", {"path": "b"})],
        "",
    ),
    ('<|python_tag|>read.call(path="x", limit=3)', [("read", {"path": "x", "limit": 3})], ""),
    ('{"name": "ls", "parameters": {"path": "."}}', [("ls", {"path": "."})], ""),
    ('I look.\n{"parameters": {"path": "."}, "name": "ls"}\n', [("ls", {"path": "."})], "I look.\n"),
    (
        '{"type": "function", "function": {"name": "read", "arguments": "{\\"path\\": \\"x\\"}"}}',
        [("read", {"path": "x"})],
        "",
    ),
    (
        '[TOOL_CALLS] [{"name": "ls", "arguments": {"path": "."}}, {"name": "read", "arguments": {"path": "q"}}]</s>',
        [("ls", {"path": "."}), ("read", {"path": "q"})],
        "",
    ),
    ('[TOOL_CALLS]ls[ARGS]{"path": "/"}', [("ls", {"path": "/"})], ""),
    ('  [TOOL_CALLS]ls{"path": "/"}', [("ls", {"path": "/"})], "  "),
    ('[read(path="a]b", limit=2), ls()]', [("read", {"path": "a]b", "limit": 2}), ("ls", {})], ""),
    ('[{"name": "ls", "arguments": {"path": "."}}]', [("ls", {"path": "."})], ""),
    (
        'I will look.\n\n```json\n{\n  "name": "read",\n  "arguments": {\n    "path": "notes.txt"\n  }\n}\n```',
        [("read", {"path": "notes.txt"})],
        "I will look.\n\n",
    ),
    ('```\n<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>\n```\n', [("ls", {"path": "."})], ""),
    (
        '```json\n{"name": "ls", "arguments": {}}\n{"name": "read", "arguments": {"path": "a"}}\n```',
        [("ls", {}), ("read", {"path": "a"})],
        "",
    ),
    (
        '```json\n{"name": "write", "arguments": {"path": "a.md", "content": "```\\nx\\n```"}}\n```',
        [("write", {"path": "a.md", "content": "```\nx\n```"})],
        "",
    ),
    (
        'I will look.\n```json\n{"name": "read", "arguments": {"path": "x"}}\n```\nThen I tell you.',
        [("read", {"path": "x"})],
        "I will look.\n\nThen I tell you.",
    ),
    ('<tools>{"name": "ls", "arguments": {"path": "."}}</tools>', [("ls", {"path": "."})], ""),
    (
        'So:\n<tools>\n{"type": "function", "function": {"name": "read", "arguments": {"path": "x"}}}\n</tools>\nWait.',
        [("read", {"path": "x"})],
        "So:\n\nWait.",
    ),
    ('<tools><function name="read" arguments=\'{"path": "x"}\'/></tools>', [("read", {"path": "x"})], ""),
    ("<function name='ls' arguments='{\"path\": \"it\\'s\"}'></function>", [("ls", {"path": "it's"})], ""),
    ('<function name="ls" arguments="{&quot;path&quot;: &quot;.&quot;}" />', [("ls", {"path": "."})], ""),
    ('<function name="ls" arguments={"path": "a>b"}>', [("ls", {"path": "a>b"})], ""),
    (
        '<tool_call>{"name": "write", "arguments": {"path": "a.json", "content": "{"a": "x", "b": 2}"}}</tool_call>',
        [("write", {"path": "a.json", "content": '{"a": "x", "b": 2}'})],
        "",
    ),
    (
        '<tool_call>{"name": "exec", "arguments": {"command": "grep -E "a|b" x", paths: ["a", "b"]}}</tool_call>',
        [("exec", {"command": 'grep -E "a|b" x', "paths": ["a", "b"]})],
        "",
    ),
    (
        '<tool_call>{"name": "write", "arguments": {"path": "d.md", "content": "say </tool_call> twice"}}</tool_call>',
        [("write", {"path": "d.md", "content": "say </tool_call> twice"})],
        "",
    ),
]

# Ordinary answers: nothing in them is a call, and all of it must come out as it is.
NEGATIVES: list[str] = [
    "Hello there! How can I help?",
    "1 < 2 and [3] and {4}\n[link](http://example.com)\n- read(path='x')\n",
    '```json\n{"name": "read", "arguments": {"file": "x"}}\n```\nThis would read the file x.',
    '```json\n{"name": "read", "arguments": {}}\n```\nThis would read a file.',
    '<tools>{"name": "launch", "arguments": {}}</tools>',
    '<tools>{"function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}</tools>',
    '<function name="launch" arguments="{}"/>',
    "A <function name=read> in angle brackets, and <tools> as a word.",
    '{"name": "read", "arguments": {"path": "x"}}\n\nThat is how a call looks.',
    'Write `<tool_call>{"name": "read", "arguments": {}}</tool_call>` to read.',
    '```python\nread(path="x")\n[ls()]\n```',
    '```xml\n<note>\n<tool_call>{"name": "ls", "arguments": {}}</tool_call>\n</note>\n```\n',
    '```html\n<tool_call>{"name": "ls", "arguments": {}}</tool_call>\n```\nshown',
    '{"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}',
    '{"name": "exec", "version": "1.0.0", "input": {}}',
    '{"name": "ls", "path": "/bin/ls"}',
    '[{"name": "ls", "path": "/bin/ls"}, {"name": "read", "size": 3}]',
    '```json\n{"name": "Anna", "arguments": {"age": 3}}\n```',
    '```json\n{"id": 7, "name": "read"}\n```',
    '<tool_call>{"name": "launch", "arguments": {}}</tool_call>',
    "<function=launch><parameter=x>1</parameter></function>",
    '[TOOL_CALLS] [{"name": "launch", "arguments": {}}]',
    "[TOOL_CALLS] is what Mistral models write.",
    "<|python_tag|>print('read')",
    '<think>I could <tool_call>{"name": "read", "arguments": {}}</tool_call></think>No need.',
    "[launch(x=1)]",
    "[read(path), ls()]",
    '[read("a")]',
    "[read]",
    "[ls, read]\n",
    "def f():\n    {\n    }\n{\n",
    "int main() {\n  return read(0);\n}\n",
    "<tool_call>",
    "<tool_call>soon</tool_call>",
    "<tool_",
    "a\n```",
    "a\n```json\n{",
    '{"name": "re',
    "\n\n  \n",
    "",
]
