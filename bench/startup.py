"""What starting costs: which modules `pal --version` and the gateway import, and how long each takes.

python bench/startup.py [--top 25] [--modules]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import NamedTuple

CASES = {
    "nothing": "pass",
    "pal --version": "import sys; sys.argv = ['pal', '--version']; from palinurus.cli.main import main; main()",
    "palinurus.app": "import palinurus.app",
    "gateway": "import palinurus.cli.gateway.serve",
}


class Cost(NamedTuple):
    own: int  # microseconds in the module itself
    whole: int  # and in what it imported first
    name: str


def costs(code: str) -> list[Cost]:
    """The imports of a program, in the order in which they ended. Raises SystemExit when it fails."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True)
    out, other = [], []
    for line in done.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if line.startswith("import time:") and parts[0].strip().isdigit():
            out.append(Cost(int(parts[0]), int(parts[1]), parts[2].strip()))
        elif not line.startswith("import time:"):
            other.append(line)
    if done.returncode not in (0, None):
        raise SystemExit("\n".join(other[-5:]))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=15)
    parser.add_argument("--modules", action="store_true", help="list every module, not only the dear ones")
    options = parser.parse_args()
    bare = {cost.name for cost in costs(CASES["nothing"])}
    for title, code in CASES.items():
        try:
            found = [cost for cost in costs(code) if title == "nothing" or cost.name not in bare]
        except SystemExit as exc:
            print(f"## {title}: {exc}\n")
            continue
        total = sum(cost.own for cost in found)
        print(f"## {title}: {len(found)} modules{'' if title == 'nothing' else ' more'}, {total / 1000:.1f} ms")
        if options.modules:
            print(" ".join(sorted(cost.name for cost in found)))
        for cost in sorted(found, reverse=True)[: options.top]:
            print(f"{cost.own / 1000:8.2f} ms itself {cost.whole / 1000:8.2f} ms whole  {cost.name}")
        print()


if __name__ == "__main__":
    main()
