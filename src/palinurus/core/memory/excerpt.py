"""A window of lines, bounded in characters too."""

from __future__ import annotations

from palinurus.core.memory.values import MemoryExcerpt

LINE_CUT = "…[line cut]"


def cut_excerpt(path: str, text: str, start: int, count: int, room: int) -> MemoryExcerpt:
    """`count` lines from line `start` on (from 1), at most `room` characters. Only a first line that is too long
    alone is cut."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(start, 1)
    taken: list[str] = []
    left = room
    for line in lines[first - 1 : first - 1 + max(count, 1)]:
        if len(line) + 1 > left:
            break
        taken.append(line)
        left -= len(line) + 1
    if not taken and first <= len(lines):
        taken = [lines[first - 1][: max(room - len(LINE_CUT), 0)] + LINE_CUT]
    after = first + len(taken)
    more = after if taken and after <= len(lines) else 0
    return MemoryExcerpt(path, "\n".join(taken), first, len(taken), len(lines), more)


def write_excerpt_hint(part: MemoryExcerpt) -> str:
    """How to go on, or why there is nothing; "" when all is there."""
    if part.missing:
        return f"[{part.path} does not exist yet; nothing is remembered there]"
    if part.next:
        return f"[Lines {part.start}-{part.next - 1} of {part.total}. Continue with from={part.next}.]"
    if not part.lines and part.total:
        return f"[{part.path} has {part.total} lines; line {part.start} is beyond its end]"
    return "" if part.text else f"[{part.path} is empty]"
