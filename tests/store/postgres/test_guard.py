"""The guard of a node: in which order it ends what the node has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from palinurus.store.postgres.guard import find_family, list_descent, list_parents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_nobody_comes_before_its_parent() -> None:
    """A shell whose `sleep` was killed before it went on with its next line until its turn came."""
    parents = {90: 7, 50: 90, 10: 50, 60: 7, 7: 1, 1: 0}
    found = list_descent((7,), parents)
    assert found[0] == 7 and sorted(found) == [7, 10, 50, 60, 90]
    assert found.index(90) < found.index(50) < found.index(10)
    assert list_descent((3,), {3: 4, 4: 3}) == [3, 4]  # numbers that were used again while it looked


def test_a_family_of_shells_is_found_from_the_top() -> None:
    script = "(echo ready; sleep 100; :); :"
    node = subprocess.Popen(["sh", "-c", f"sh -c '{script}'; :"], stdout=subprocess.PIPE, start_new_session=True)
    assert node.stdout
    try:
        assert node.stdout.readline() == b"ready\n"
        family, parents = find_family(node.pid), list_parents()
        assert len(family) >= 2 and all(
            parents[pid] == node.pid or family.index(parents[pid]) < family.index(pid) for pid in family
        )
    finally:
        for pid in (node.pid, *find_family(node.pid)):
            subprocess.run(["kill", "-9", str(pid)], check=False)
        node.wait()
        node.stdout.close()
