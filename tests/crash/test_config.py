"""`pal config set`, killed while it replaces the file: the file is the old one or the new one, never half of one."""

import json
import os

import pytest

from nursery import run_program
from palinurus.testing.home import make_home


def pal(home, *argv, crash=""):
    env = {**os.environ, "HOME": os.path.dirname(home), "PALINURUS_HOME": home, "PALINURUS_CRASH": crash}
    done = run_program(*argv, env=env)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("point", "kept"), [("config.before", False), ("config.after", True)])
def test_the_file_is_replaced_whole(point, kept, tmp_path):
    home = make_home(tmp_path)
    code, _ = pal(home, "config", "set", "agents.defaults.timeoutSeconds", "77", crash=f"{point}:1")
    assert code == 137, f"{point} was not reached"
    with open(os.path.join(home, "palinurus.json")) as handle:
        config = json.load(handle)
    assert config["agents"]["defaults"].get("timeoutSeconds") == (77 if kept else None)
    code, out = pal(home, "config", "get", "agents.defaults.timeoutSeconds")
    assert ("77" in out) == kept
    assert (pal(home, "config", "set", "agents.defaults.timeoutSeconds", "88"))[0] == 0
    assert "88" in (pal(home, "config", "get", "agents.defaults.timeoutSeconds"))[1]
