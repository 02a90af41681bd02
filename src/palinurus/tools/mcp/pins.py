"""What servers said of their tools when they were first used. What a tool is described as stands in every prompt, so a
changed description, schema or a tool that was not there is an outsider's word: it waits until the owner has seen it
(`pal mcp test NAME`) and said so (`pal mcp trust NAME`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence

import msgspec

from palinurus.files import write_whole_file
from palinurus.tools.mcp.port import McpToolListing

log = logging.getLogger(__name__)

PINS_FILE = "mcp-pins.json"
_Pins = dict[str, dict[str, str]]  # server -> tool -> digest


class McpPins:
    """`path` "": nothing is remembered, everything passes."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def split_listing(
        self, server: str, listed: Sequence[McpToolListing]
    ) -> tuple[tuple[McpToolListing, ...], tuple[str, ...]]:
        """The tools that are as they were, and the names of those that wait for the owner. A server's first list is
        remembered as it is; that is on disk when this returns, or logged."""
        if not self._path or not listed:
            return tuple(listed), ()
        pins = self._read()
        known = pins.get(server)
        if known is None:
            self._write({**pins, server: {str(one.get("name")): digest_tool(one) for one in listed}})
            return tuple(listed), ()
        same = tuple(one for one in listed if known.get(str(one.get("name"))) == digest_tool(one))
        return same, tuple(dict.fromkeys(str(one.get("name")) for one in listed if one not in same))

    def forget(self, server: str) -> bool:
        """The next list it gives is remembered instead. False if there was none."""
        pins = self._read()
        found = pins.pop(server, None) is not None
        if found:
            self._write(pins)
        return found

    def _read(self) -> _Pins:
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=_Pins)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as exc:
            log.warning("%s cannot be read, MCP servers are taken as they are now: %s", self._path, exc)
            return {}

    def _write(self, pins: _Pins) -> None:
        try:
            write_whole_file(self._path, msgspec.json.format(msgspec.json.encode(pins), indent=1))
        except OSError as exc:
            log.warning("%s cannot be written: %s", self._path, exc)


def digest_tool(listed: McpToolListing) -> str:
    """Of all that a model is told, and what says whether it only reads."""
    told = [listed.get(key) for key in ("name", "title", "description", "inputSchema", "annotations")]
    return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()[:16]
