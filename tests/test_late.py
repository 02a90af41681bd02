"""What is loaded late, and that it is: an idle gateway holds none of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cli.place import SRC
from palinurus.late import PARTS, load_part

# What is only there because of a part, and would come back with an import at the top of a file.
HEAVY = {"nacl", "pyjson5", "importlib.metadata", "mcp", "palinurus.gateway.client"}


@pytest.mark.parametrize("row", PARTS)
def test_every_row_leads_somewhere(row: str) -> None:
    if row == "mcp":
        pytest.importorskip("mcp")
    assert load_part(row) is load_part(row) is not None


def test_an_unknown_part() -> None:
    with pytest.raises(KeyError):
        load_part("no such thing")


def test_a_gateway_loads_none_of_it_before_it_is_asked() -> None:
    code = "import sys, palinurus.cli.gateway.serve; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    late = {where.partition(":")[0] for where in PARTS.values()} | HEAVY
    assert late & set(done.stdout.split()) == set()
