"""`pal config set`, killed while it replaces the file: the file is the old one or the new one, never half of one."""

import asyncio
import json
import os
import sys

import pytest

from palinurus.testing.home import make_home


async def pal(home, *argv, crash=""):
    env = {**os.environ, "HOME": os.path.dirname(home), "PALINURUS_HOME": home, "PALINURUS_CRASH": crash}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "palinurus", *argv, env=env, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


@pytest.mark.parametrize(("point", "kept"), [("config.before", False), ("config.after", True)])
async def test_the_file_is_replaced_whole(point, kept, tmp_path):
    home = make_home(tmp_path)
    code, _ = await pal(home, "config", "set", "agents.defaults.timeoutSeconds", "77", crash=f"{point}:1")
    assert code == 137, f"{point} was not reached"
    with open(os.path.join(home, "palinurus.json")) as handle:
        config = json.load(handle)
    assert config["agents"]["defaults"].get("timeoutSeconds") == (77 if kept else None)
    code, out = await pal(home, "config", "get", "agents.defaults.timeoutSeconds")
    assert ("77" in out) == kept
    assert (await pal(home, "config", "set", "agents.defaults.timeoutSeconds", "88"))[0] == 0
    assert "88" in (await pal(home, "config", "get", "agents.defaults.timeoutSeconds"))[1]
