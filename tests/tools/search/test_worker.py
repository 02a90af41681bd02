"""The worker needs nothing but the standard library: it must start without site packages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from palinurus.tools.sandbox.system import make_own_command

COMMAND = make_own_command("palinurus.tools.search.worker")
CHECK = [one.replace("main()", "import json; json.dump(sorted(sys.modules), sys.stdout)") for one in COMMAND]


def test_it_loads_no_third_party_module() -> None:
    done = subprocess.run(CHECK, capture_output=True, check=True, env={})
    loaded = json.loads(done.stdout)
    assert "palinurus.tools.search.worker" in loaded
    assert not {"msgspec", "asyncio", "logging", "site", "palinurus.core"} & set(loaded)


def test_a_job_by_hand(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("one\n")
    handle = os.open(tmp_path, os.O_RDONLY)
    job = {"mode": "find", "pattern": "*.txt", "limit": 5, "room": 1000, "seconds": 10, "only": "", "prefix": "p/"}
    job |= {"folder": handle, "barred": [], "ignores": []}
    try:
        done = subprocess.run(
            COMMAND,
            input=json.dumps(job).encode(),
            capture_output=True,
            check=True,
            pass_fds=(handle,),
        )
    finally:
        os.close(handle)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        "p/f.txt",
        {"count": 1, "full": "", "error": ""},
    ]
