"""Our own environment is not readable for processes of the same user."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_the_kernel_says_so() -> None:
    code = (
        "import os\nfrom palinurus.tools.commands.environ import hide_process\n"
        "assert os.stat('/proc/self/environ').st_uid == os.geteuid()\n"
        "print(hide_process(), os.stat('/proc/self/environ').st_uid)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]  # the file now belongs to root
