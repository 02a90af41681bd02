"""The moving picture of the README: the lines of its first screen, really run, drawn as an SVG that plays by itself.

python packaging/film.py docs/first-minute.svg        (part of `make screenshots`)
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

PAL = str(Path(sys.executable).with_name("pal"))
SHOWN = ("make run", "pal gateway")  # what is typed, and what it comes to once everything is installed
TALK = (
    'pal agent -m "write notes.txt with buy milk"',
    'pal agent -m "read notes.txt"',
    "pal why last",
)
WIDTH, LINE, LEFT, TOP, MOST, WIDE = 92, 20, 18, 52, 9, 8.43
KEY, PAUSE = 0.035, 1.4  # seconds a key takes, and an answer is looked at
STYLE = """text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d6dae0;white-space:pre}
.typed{fill:#fff}.sign{fill:#6cc495}.note{fill:#8a94a3}
.l{opacity:0;animation:in .01s linear forwards}@keyframes in{to{opacity:1}}
@media (prefers-reduced-motion:reduce){.l{animation-delay:0s!important}}"""


def record(home: str) -> list[tuple[str, list[str]]]:
    """(what was typed, the lines it said). Raises RuntimeError when a line fails."""
    environ = {
        **os.environ,
        "HOME": home,
        "PALINURUS_HOME": f"{home}/.palinurus",
        "NO_COLOR": "1",
        "COLUMNS": str(WIDTH),
    }
    subprocess.run([PAL, "setup", "--non-interactive"], env=environ, check=True, capture_output=True)
    log = Path(home, "gateway.log")
    with log.open("w") as out:
        gateway = subprocess.Popen([PAL, "gateway"], env=environ, stdout=out, stderr=out)
    try:
        for _ in range(300):
            if "stop" in log.read_text(encoding="utf-8") or gateway.poll() is not None:
                break
            time.sleep(0.1)
        scenes = [(SHOWN[0], log.read_text(encoding="utf-8").splitlines())]
        for line in TALK:
            done = subprocess.run(line.replace("pal", PAL, 1), shell=True, env=environ, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{line}: {done.stderr}")
            scenes.append((line, done.stdout.splitlines()))
    finally:
        gateway.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            gateway.wait(20)
    return [(typed, shorten(lines, home)) for typed, lines in scenes]


def shorten(lines: list[str], home: str) -> list[str]:
    """Without what differs from run to run, and not more than a picture holds."""
    text = [
        line.replace(home, "~").rstrip() for line in lines if line.strip() and not re.match(r"\d\d:", line)
    ]  # no log
    text = [re.sub(r"\b[0-9a-z]{26}\b", "01k9…", line) for line in text]
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in text[:MOST]]


def show(text: str, x: float, y: int, when: float, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}" style="animation-delay:{when:.2f}s">{escape(text)}</text>'


def draw(scenes: list[tuple[str, list[str]]]) -> str:
    """The SVG: every key and line has its moment, once; who wants no motion sees the end at once."""
    rows: list[str] = []
    now, y = 0.6, TOP
    for typed, said in scenes:
        rows.append(show("$", LEFT, y, now, "l sign"))
        for at, key in enumerate(typed):
            if key != " ":
                rows.append(show(key, LEFT + (at + 2) * WIDE, y, now, "l typed"))
            now += KEY
        now += 0.3
        for line in said:
            y += LINE
            rows.append(show(line, LEFT, y, now, "l"))
            now += 0.05
        now, y = now + PAUSE, y + LINE + 6
    wide, high = LEFT * 2 + int(WIDTH * WIDE), y
    dots = "".join(
        f'<circle cx="{22 + n * 18}" cy="18" r="5" fill="{c}"/>'
        for n, c in enumerate(("#e2605a", "#e0b04a", "#6cc495"))
    )
    frame = f'<rect width="{wide}" height="{high}" rx="8" fill="#14181f"/>{dots}'
    title = "<title>From install to the first tool call, recorded from the program</title>"
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return f"{head}{title}<style>{STYLE}</style>{frame}" + "\n".join(rows) + "</svg>\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(sys.argv[1]).write_text(draw(record(folder)), encoding="utf-8")
