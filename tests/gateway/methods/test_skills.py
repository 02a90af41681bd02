"""Skills: what there is, what one lacks, switching one."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.whole import place

SKILL = """---
name: {name}
description: Does {name}.
metadata: {{"openclaw": {{"requires": {{"bins": ["{bin}"], "env": ["WEATHER_KEY"]}}, "primaryEnv": "WEATHER_KEY"}}}}
---
Body.
"""


async def test_status_tells_what_is_missing_and_update_writes_the_config(tmp_path: Path) -> None:
    home = tmp_path / "h"
    for name, program in (("weather", "sh"), ("other", "no-such-program")):
        folder = home / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name, bin=program))
    async with place(home) as here:
        found = {skill["name"]: skill for skill in (await here.call("skills.status"))["skills"]}
        assert not found["weather"]["eligible"] and found["weather"]["missing"]["env"] == ["WEATHER_KEY"]
        assert found["weather"]["missing"]["bins"] == [] and found["other"]["missing"]["bins"] == ["no-such-program"]
        assert found["weather"]["requirements"]["bins"] == ["sh"]
        done = await here.call("skills.update", skillKey="weather", enabled=True, apiKey="w-secret")
        assert "w-secret" not in json.dumps(done)
        entry = json.loads((home / "palinurus.json").read_text())["skills"]["entries"]["weather"]
        assert entry == {"enabled": True, "apiKey": "w-secret"}
        await here.call("skills.update", skillKey="weather", enabled=False, apiKey="")
        entry = json.loads((home / "palinurus.json").read_text())["skills"]["entries"]["weather"]
        assert entry == {"enabled": False}
        assert (await here.refused("skills.status", agentId="nobody")).message == 'unknown agent id "nobody"'
