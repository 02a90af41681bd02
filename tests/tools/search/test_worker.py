"""The worker needs nothing but the standard library: it must start without site packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import palinurus
from palinurus.tools.search.tools import _CODE, _FLAGS

CHECK = _CODE.replace("main()", "import json; json.dump(sorted(sys.modules), sys.stdout)")


def test_it_loads_no_third_party_module() -> None:
    root = str(Path(palinurus.__file__).parent.parent)
    done = subprocess.run([sys.executable, *_FLAGS, CHECK, root], capture_output=True, check=True, env={})
    loaded = json.loads(done.stdout)
    assert "palinurus.tools.search.worker" in loaded
    assert not {"msgspec", "asyncio", "logging", "site", "palinurus.core"} & set(loaded)


def test_a_job_by_hand(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("one\n")
    root = str(Path(palinurus.__file__).parent.parent)
    handle = os.open(tmp_path, os.O_RDONLY)
    job = {"mode": "find", "pattern": "*.txt", "limit": 5, "room": 1000, "seconds": 10, "only": "", "prefix": "p/"}
    job |= {"folder": handle, "barred": [], "ignores": []}
    try:
        done = subprocess.run(
            [sys.executable, *_FLAGS, _CODE, root],
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
