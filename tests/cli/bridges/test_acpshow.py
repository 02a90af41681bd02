"""What editors are shown of a call."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from later import LaterModule

pytestmark = pytest.mark.skipif(find_spec("acp") is None, reason="acp is not installed")
acpshow = LaterModule("palinurus.cli.bridges.acpshow")

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def one():
 x = 1
-y = 2
+y = 3
*** Add File: b.txt
+new
*** Delete File: c.txt
*** End Patch"""


def test_a_patch_is_shown_as_a_diff_of_each_file() -> None:
    start = acpshow.make_tool_start({"toolCallId": "1", "name": "apply_patch", "args": {"input": PATCH}}, "/project")
    assert [(one.path, one.old_text, one.new_text) for one in start.content] == [
        ("/project/a.py", "x = 1\ny = 2", "x = 1\ny = 3"),
        ("/project/b.txt", None, "new\n"),
    ]
    assert [one.path for one in start.locations] == ["/project/a.py", "/project/b.txt"] and start.kind == "edit"


def test_a_patch_that_cannot_be_read_shows_nothing() -> None:
    start = acpshow.make_tool_start(
        {"toolCallId": "1", "name": "apply_patch", "args": {"input": "nonsense"}}, "/project"
    )
    assert start.content is None and start.locations is None
