"""A run of a real model on this machine, recorded and played again: `make torture PART=local`, ARGS: names of models.

Installs the runtime, fetches the weights once (kept in the user's cache folder), talks to the model through `pal agent`
in a new home, takes the weights away, and plays everything again with sockets closed. The smallest model (98 MB, no
tools) is the usual one; qwen2.5-coder-1.5b (1.1 GB) also calls tools. Half a minute of processor time, or two.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

SMALL = "smollm2-135m"
SAID = {SMALL: ("Say hello in five words.", "And in French?")}
OTHERS = ("Say hello in five words.", "List the files here.")  # of models that call tools
SECONDS = 1200  # for one answer: others may need the machine


def run_pal(home: str, *words: str) -> str:
    """What it printed. Ends this program if it failed."""
    environ = {**os.environ, "PALINURUS_HOME": home}
    line = [sys.executable, "-m", "palinurus", *words]
    done = subprocess.run(line, env=environ, capture_output=True, timeout=SECONDS)
    if done.returncode:
        sys.exit(f"pal {' '.join(words)} ended with {done.returncode}\n{(done.stdout + done.stderr).decode()}")
    return done.stdout.decode().strip()


def play(model: str, cache: str) -> None:
    """One model."""
    print(run_pal(cache, "models", "pull", model), flush=True)
    with tempfile.TemporaryDirectory(prefix="pal-local-") as home:
        os.symlink(os.path.join(cache, "models"), os.path.join(home, "models"))
        run_pal(home, "record", "on")
        turns = SAID.get(model, OTHERS)
        for words in turns:
            start = time.monotonic()
            said = run_pal(home, "agent", "--model", f"local/{model}", "-m", words)
            print(f"{words}\n  {' '.join(said.split())[:200]}  ({time.monotonic() - start:.0f} s)", flush=True)
        os.unlink(os.path.join(home, "models"))
        told = run_pal(home, "replay", "--all")
        print(told)
        wanted = f"{len(turns)} runs: {len(turns)} same, 0 differs, 0 not played"
        if told.splitlines()[-1] != wanted:
            sys.exit(f"wanted: {wanted}")
        print(f"local/{model}: all {len(turns)} runs replayed byte-equal, sockets closed, weights taken away")


def main(models: list[str]) -> int:
    """Exit code 0 if all came out as it was."""
    place = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.path.join(place, "palinurus-local")
    os.makedirs(cache, mode=0o700, exist_ok=True)
    print(run_pal(cache, "extras", "add", "local"), flush=True)
    for model in models or [SMALL]:
        play(model, cache)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
