"""A QR code for the terminal. Apart from everything else: what draws it comes with an extra."""

from __future__ import annotations

import io

import segno


def draw_terminal_qr(code: str) -> str:
    """Lines of half blocks."""
    out = io.StringIO()
    segno.make_qr(code).terminal(out=out, compact=True, border=2)
    return out.getvalue()
