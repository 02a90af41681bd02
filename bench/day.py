"""A day with a model that runs here, in the real terminal, written down as it went: `python bench/day.py --home DIR`.

Makes a small repository, starts `pal` in it inside tmux, types what somebody would type, waits until it is done, and
writes what stood on the screen to docs/day-local.md: failures and seconds included, nothing is corrected.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
FILES = {
    "todo.md": "- call the dentist\n- finish the report\n",
    "calc.py": "def total(a, b):\n    return a - b\n",
    "test_calc.py": "import unittest\n\nfrom calc import total\n\n\nclass Total(unittest.TestCase):\n"
    "    def test_two(self):\n        self.assertEqual(total(2, 3), 5)\n",
    "server.log": "10:01 started\n10:07 timeout talking to printer\n10:09 ok\n",
    "report.md": "# Report\nSales in May: 41 boxes. Sales in June: 58 boxes.\n",
}
SAID = (
    "Good morning. What files do we have?",
    "What does todo.md want from me?",
    "Add buy stamps to the list in todo.md",
    "Which file says something about the printer?",
    "Run python3 -m unittest and tell me the result",
    "In calc.py change a - b to a + b",
    "Run python3 -m unittest again",
    "Write mail.txt: Dear Ann, the report is finished.",
    "Commit everything with git, message: fix total",
    "What did I want to buy?",
)
_WAITS = re.compile(r"(loading .*? s|reading [\d,]+ tokens … \d+ % \(\d+ s\))")
_RULE = re.compile(r"[─━▁▔▂]{20,}")


def tmux(*words: str) -> str:
    return subprocess.run(["tmux", "-L", "pal-day", *words], check=True, capture_output=True, text=True).stdout


def look() -> list[str]:
    return [line.rstrip() for line in tmux("capture-pane", "-p", "-t", "day").splitlines()]


def is_busy(screen: list[str]) -> bool:
    sent = any(line.endswith(("(sending)", "(waiting)")) for line in screen)
    return sent or any("Esc stops" in line or "starting …" in line for line in screen[-6:])


def wait(until: float, told: list[str]) -> list[str]:
    """The screen once nothing is going on; what was said meanwhile about why it takes its time goes into `told`."""
    calm = 0
    while time.monotonic() < until and calm < 3:
        time.sleep(0.5)
        screen = look()
        for line in screen:
            if (found := _WAITS.search(line)) and (not told or told[-1] != found[1]):
                told.append(found[1])
        if any("to decide" in line for line in screen[-6:]):
            told.append("it asked for leave: o, once")
            tmux("send-keys", "-t", "day", "Tab")
            tmux("send-keys", "-t", "day", "o")
        calm = 0 if is_busy(screen) else calm + 1
    return look()


def read_conversation(screen: list[str]) -> list[str]:
    """The lines above the place where one types."""
    end = max((at for at, line in enumerate(screen) if _RULE.search(line)), default=len(screen))
    return [line for line in screen[:end] if line.strip()]


def make_place(home: str) -> str:
    where = tempfile.mkdtemp(prefix="day-")
    for name, text in FILES.items():
        Path(where, name).write_text(text)
    git = ["git", "-c", "user.name=Eve", "-c", "user.email=eve@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *words], cwd=where, check=True)
    subprocess.run(["git", "config", "user.name", "Eve"], cwd=where, check=True)
    subprocess.run(["git", "config", "user.email", "eve@example.org"], cwd=where, check=True)
    config = {"agents": {"defaults": {"model": "local/qwen2.5-coder-1.5b", "skipBootstrap": True}}}
    Path(home, "palinurus.json").write_text(json.dumps(config))
    return where


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", required=True, help="where `pal models pull` put the model")
    parser.add_argument("--to", default=str(HERE / "docs" / "day-local.md"))
    options = parser.parse_args()
    where = make_place(options.home)
    pal = [f"PALINURUS_HOME={os.path.abspath(options.home)}", str(Path(sys.executable).parent / "pal"), "--here"]
    tmux("new-session", "-d", "-s", "day", "-x", "100", "-y", "200", "-c", where, "env", *pal)
    out: list[str] = []
    try:
        wait(time.monotonic() + 60, [])
        for said in SAID:
            told, began = list[str](), time.monotonic()
            tmux("send-keys", "-t", "day", "-l", said)
            tmux("send-keys", "-t", "day", "Enter")
            time.sleep(1.0)
            wait(began + 900, told)
            took = time.monotonic() - began
            lines = read_conversation(look())
            fresh = lines[max((at for at, line in enumerate(lines) if said[:60] in line), default=0) :]
            out += [f"# {took:.0f} s" + (f"   ({told[0]}; {len(told)} such lines)" if told else ""), *fresh, ""]
            print("\n".join(out[-len(fresh) - 2 :]), flush=True)
    finally:
        tmux("kill-session", "-t", "day")
    Path(options.to).write_text("\n".join(out))
    print(subprocess.run(["git", "log", "--stat", "--oneline"], cwd=where, capture_output=True, text=True).stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
