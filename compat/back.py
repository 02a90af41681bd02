"""`pal export --to openclaw`: the real OpenClaw starts on what was written and shows a conversation, and importing that
again gives the same bytes."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import imported
from tally import Tally

WANTED = ("hello from before", "and a second line", "it says buy milk")
Serve = Callable[[str], AbstractContextManager[Callable[..., Any]]]


def check(tally: Tally, home: str, serve: Serve, repair: Callable[[str], object]) -> None:
    """`home` is one of ours with what was imported; `serve` starts the real gateway for a user's folder, `repair` its
    doctor."""
    user = f"{home}-back"
    root = os.path.join(user, ".openclaw")
    before = imported.digest(home)
    done = export(home, root)
    tally.note("export to openclaw: written", done.returncode == 0, done.stderr.decode())
    refused = export(home, root)
    tally.note("export to openclaw: never into a home that has something in it", refused.returncode == 64, "")
    whole = imported.digest(root)
    for step in (1, 9, 30):
        cut = f"{home}-cut{step}"
        killed = export(home, cut, crash=f"export.placed:{step}")
        half = os.path.exists(f"{cut}/.palinurus-export") and not os.path.exists(f"{cut}/openclaw.json")
        again = export(home, cut)
        same = {name for name, found in imported.digest(cut).items() if found != whole.get(name)}
        fine = killed.returncode == 137 and half and again.returncode == 0 and same <= list_placed(whole)
        tally.note(
            f"export to openclaw: killed at step {step} it says so, and is finished by the next run", fine, str(same)
        )
        shutil.rmtree(cut)
    now = {
        name: found for name, found in imported.digest(home).items() if not name.startswith(("state.db", "gateway."))
    }
    tally.note("export to openclaw: this home is as it was", all(before.get(name) == now[name] for name in now), "")
    other = f"{home}-again"
    imported.bring("openclaw", root, other)
    ours, theirs = transcripts(home), transcripts(other)
    tally.note(
        f"export to openclaw: {len(ours)} transcripts come back byte for byte", bool(ours) and ours == theirs, ""
    )
    repair(user)  # takes cron/jobs.json into its database
    with serve(user) as ask:
        told = json.dumps(ask("chat.history", {"sessionKey": "agent:work:main"}), ensure_ascii=False)
        tally.has("export to openclaw: the real gateway shows the conversation", told, *WANTED)
        jobs = json.dumps(ask("cron.list", {"includeDisabled": True}))
        tally.has("export to openclaw: and the job", jobs, "brief")


def list_placed(whole: dict[str, str]) -> set[str]:
    """Files that say where the home is: they differ between two places."""
    return {name for name in whole if name.endswith(("sessions.json", "openclaw.json"))}


def transcripts(home: str) -> dict[str, bytes]:
    return {
        os.path.relpath(path, home): imported.read(path) for path in glob.glob(f"{home}/agents/*/sessions/*.jsonl*")
    }


def export(home: str, root: str, crash: str = "") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "palinurus", "--home", home, "export", "--to", "openclaw", root]
    environ = {**os.environ, **({"PALINURUS_CRASH": crash} if crash else {})}
    return subprocess.run(command, env=environ, capture_output=True, timeout=imported.PATIENCE)
