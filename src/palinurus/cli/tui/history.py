"""What was typed before: up and down, looked through, kept in the file that the plain chat uses too."""

from __future__ import annotations

import os

MOST = 1000


class InputHistory:
    """`path` "": nothing is kept."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lines: list[str] = []
        self._at = 0
        self._draft = ""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                self._lines = [line for line in file.read().splitlines() if line.strip()][-MOST:]
        except OSError:
            pass  # none yet
        self._at = len(self._lines)

    def add(self, text: str) -> None:
        """Something was sent. A disk that cannot keep it loses nothing but the convenience."""
        if not self._lines or self._lines[-1] != text:
            self._lines.append(text)
            self._keep(text)
        self._at = len(self._lines)

    def _keep(self, text: str) -> None:
        if not self._path:
            return
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(" ".join(text.split("\n")) + "\n")
        except OSError:
            self._path = ""

    def back(self, now: str) -> str | None:
        """The message before; None at the first. What is being typed is remembered."""
        if self._at == 0:
            return None
        if self._at == len(self._lines):
            self._draft = now
        self._at -= 1
        return self._lines[self._at]

    def forward(self) -> str | None:
        """The message after; at the end what was being typed. None beyond."""
        if self._at >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else self._draft

    def list_newest(self) -> list[str]:
        """Each message once, the newest first."""
        return list(dict.fromkeys(reversed(self._lines)))
