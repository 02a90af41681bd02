"""Files that come in are on disk, names and all, before the message that has them is accepted: by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAVE = """
import asyncio, os, sys
from palinurus.app.media import ChannelFiles
from palinurus.clock import SystemClock

async def save():
    files = ChannelFiles(sys.argv[1] + "/media/inbound", (), 100, None, clock=SystemClock())
    for name in ("one.txt", "two.txt"):
        kept = await files.save(name, "text/plain", name.encode())
        os.write(1, kept.name.encode() + b"\\n")

asyncio.run(save())
"""
CALL = re.compile(r"\b(fsync|write)\((\d+)<([^>]*)>(.*)")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_file_and_every_folder_that_was_made_for_it_are_on_disk_before_it_is_told_of(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "calls"
    home.mkdir()
    watch = ["strace", "-f", "-y", "-o", str(log), "-e", "trace=fsync,write", sys.executable, "-c", SAVE, str(home)]
    done = subprocess.run(watch, capture_output=True, text=True, timeout=180)
    if "ptrace" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("strace may not look here")
    assert done.stdout.split() == ["one.txt", "two.txt"], done.stderr
    seen = []
    for name, number, path, rest in CALL.findall(log.read_text(errors="replace")):
        if name == "fsync":
            seen.append(re.sub(r"[0-9a-f-]+-(?=...\.txt)", "", str(Path(path).relative_to(home))))
        elif number == "1":
            seen.append(rest.split('"')[1].removesuffix("\\n"))
    first = ["media/inbound/one.txt", "media/inbound", "media", ".", "one.txt"]
    assert seen == [*first, "media/inbound/two.txt", "media/inbound", "two.txt"]
