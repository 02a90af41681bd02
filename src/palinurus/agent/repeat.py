"""Tool-loop detection: the same call with the same arguments and the same result, again and again."""

from __future__ import annotations

import hashlib
import json

from palinurus.core.types.messages import ToolCall, ToolResult


class RepeatDetector:
    """Counts per run. `warn` repeats add a note to the result; `stop` repeats end the run (`stuck` says why)."""

    def __init__(self, warn: int, stop: int) -> None:
        self._warn = warn
        self._stop = stop
        self._seen: dict[str, tuple[str, int]] = {}  # call -> (last result, times in a row)
        self._batch: set[str] = set()
        self.stuck = ""

    def start_batch(self) -> None:
        """A new batch of calls begins: the same call twice in one batch is clumsy, not a loop."""
        self._batch.clear()

    def note(self, call: ToolCall, result: ToolResult) -> str:
        """Count one finished call. Returns the warning to add to its result, or ""."""
        key = _digest(call.name, json.dumps(call.arguments, sort_keys=True, default=str))
        if key in self._batch:
            return ""
        self._batch.add(key)
        seen, times = self._seen.get(key, ("", 0))
        outcome = _digest(str(result.isError), result.text)
        times = times + 1 if outcome == seen else 1
        self._seen[key] = (outcome, times)
        if times >= self._stop:
            self.stuck = f"stopped: {call.name} was called {times} times with the same arguments and the same result"
            return self.stuck
        if times >= self._warn:
            return f"[note: {call.name} gave this same result {times} times for the same arguments; try another way]"
        return ""


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
