"""`pal gateway` loads the program only if it is to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOADED = (
    "import sys; from palinurus.cli.gateway.start import run_gateway_command;"
    " run_gateway_command(['status']); print(*sorted(sys.modules))"
)


def test_a_verb_is_the_service_and_does_not_load_the_program(tmp_path: Path) -> None:
    env = {"PALINURUS_HOME": str(tmp_path / "h"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, env=env)
    modules = done.stdout.splitlines()[-1].split()
    assert "palinurus.cli.gateway.daemon" in modules
    assert "palinurus.app.program" not in modules and "aiohttp" not in modules
