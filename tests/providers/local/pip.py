"""In the place of `python`: `-m pip download NAME==VERSION --dest DIR …` serves wheels from a folder.

usage: pip.py FOLDER -m pip download …. `FOLDER/NAME.error` makes it fail with that text, `FOLDER/NAME.hang` makes it
wait; every request is noted in `FOLDER/asked`.
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path


def main(argv: list[str]) -> int:
    folder, wanted, into = Path(argv[0]), argv[4], Path(argv[argv.index("--dest") + 1])
    assert argv[1:4] == ["-m", "pip", "download"]
    assert "--only-binary=:all:" in argv and "--no-deps" in argv
    name, _, version = wanted.partition("==")
    with (folder / "asked").open("a") as log:
        log.write(f"{wanted}\n")
    if (folder / f"{name}.hang").exists():
        threading.Event().wait(60)
    if (folder / f"{name}.error").exists():
        sys.stderr.write((folder / f"{name}.error").read_text())
        return 1
    into.mkdir(exist_ok=True)
    shutil.copy(folder / f"{name}-{version}.whl", into)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
