"""SIGKILL at every crash point: each accepted message ends once, transcripts stay valid, nothing is delivered twice.

The short form runs here and now, the whole one under `make torture`. REACHED in `scenarios` says where each point is
passed; the sweep fails when one of these is not reached any more, and when a point of the program is in no row.
"""

import pytest

from crash.harness import World, survive
from crash.scenarios import REACHED, SCENARIOS
from palinurus import crashpoints

SHORT = [
    ("plain", "accept.before:1"),
    ("plain", "accept.after:1"),
    ("plain", "settle.after:1"),
    ("tool", "intent.after:1"),
    ("tool", "tool.after:1"),
    ("tool", "settle.before:1"),
    ("queue", "claim.after:2"),
    ("queue", "model.done:1"),
    ("stream", "model.middle:1"),
    ("channels", "accept.acked:1"),
    ("channels", "outbox.claimed:1"),
    ("channels", "outbox.sent:1"),
    ("steer", "accept.acked:3"),
    ("compact", "flush.after:1"),
    ("compact", "compact.before:1"),
    ("compact", "compact.after:1"),
    ("child", "child.recorded:1"),
    ("child", "child.accepted:1"),
    ("child", "child.ended:1"),
    ("child", "child.announced:1"),
    ("tended", "result.after:2"),
    ("nested", "child.ended:1"),
    ("nested", "child.announced:1"),
    ("nested", "child.announced:2"),
    ("beat", "accept.after:2"),
    ("beat", "settle.before:2"),
    ("beat", "settle.after:2"),
    ("job", "cron.pending:1"),
    ("job", "cron.accepted:1"),
    ("job", "cron.ended:1"),
    ("change", "tool.during:2"),
    ("change", "change.before:1"),
    ("change", "change.after:2"),
    ("change", "tape.middle:1"),
    ("letter", "outbox.claimed:1"),
    ("letter", "outbox.sent:1"),
    ("letter", "tool.after:1"),
    ("halt", "dismiss.before:1"),
    ("halt", "dismiss.after:1"),
    ("abort", "dismiss.after:1"),
    ("stop", "settle.after:1"),
    ("delete", "drop.before:1"),
    ("delete", "drop.after:1"),
    ("prune", "drop.before:1"),
    ("budget", "settle.before:3"),
    ("restart", "recover.before:1"),
    ("restart", "recover.after:1"),
]
WHOLE = [
    (scenario, f"{name}:{k}")
    for scenario, passes in REACHED.items()
    for name, count in passes.items()
    for k in range(1, count + 1)
]


@pytest.fixture
def world(name, tmp_path, model_url, nursery):
    scenario = SCENARIOS[name]
    return World(tmp_path, model_url, nursery, scenario.defaults, scenario.config)


async def dies_and_recovers(name, point, world, record_faults):
    reached, wrong = await survive(world, SCENARIOS[name], point)
    record_faults(name, point, wrong)
    assert not wrong, "\n".join(wrong)
    assert reached, f"{point} was not reached in {name}"


@pytest.mark.parametrize(("name", "point"), SHORT)
async def test_short(name, point, world, record_faults):
    await dies_and_recovers(name, point, world, record_faults)


@pytest.mark.torture
@pytest.mark.parametrize(("name", "point"), WHOLE)
async def test_whole(name, point, world, record_faults):
    await dies_and_recovers(name, point, world, record_faults)


@pytest.mark.torture  # the rows above judge the same, and that the program goes on to the same end
@pytest.mark.parametrize("name", list(SCENARIOS))
async def test_nothing_is_wrong_without_a_crash(name, world):
    reached, wrong = await survive(world, SCENARIOS[name], "")
    assert not wrong and not reached, wrong


def test_every_point_is_in_some_scenario():
    covered = {name for passes in REACHED.values() for name in passes}
    covered |= {"config.before", "config.after"}  # no gateway writes its config: test_config kills `pal config set`
    covered |= {"copy.rows", "copy.lines"}  # store/test_copy kills `pal store copy`
    covered |= {"import.placed", "import.noted", "export.placed"}  # cli/migrate kills `pal import` and `pal export`
    covered |= {"restore.whole", "restore.aside"}  # cli/backup/test_backup kills `pal backup restore`
    killed = ("learn.", "update.", "restart.said")  # services/test_learning, cli/upkeep/test_update, services/test_wake
    covered |= {name for name in crashpoints.NAMES if name.startswith(killed)}
    covered |= {"speech.made"}  # flow/test_speech kills there
    covered |= {name for name in crashpoints.NAMES if name.startswith("undo.")}  # test_undo kills `pal undo`
    assert set(crashpoints.NAMES) == covered
    assert all(name in SCENARIOS for name in REACHED)
