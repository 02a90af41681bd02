"""A small process beside the gateway that forks keepers: it has one thread and little memory, so that forking is cheap
and allowed to make user namespaces. One for every set of ports, whose rules it is under itself.

`main` is started without site packages; see `children` for the other end.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys

from palinurus.tools.sandbox import confine, groups, keeper, landlock, mounts, plan, syscalls
from palinurus.tools.sandbox.plan import KeeperPlan, read_plan


def main() -> None:
    """Fork a keeper for every request, until the gateway is gone."""
    requests = socket.socket(fileno=int(sys.argv[2]))
    requests.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers: their channels tell
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shadow = mounts.make_shadow() if os.geteuid() == 0 else None
    setup = keeper.KeeperSetup(shadow, (os.getppid(), os.getpid()), os.geteuid(), os.getegid())
    prepared = False
    while True:
        _, handles = keeper.receive_handles(requests, 2)
        if not handles:
            return
        with open(handles[1], "rb") as file:
            cell = read_plan(json.load(file))
        channel = socket.socket(fileno=handles[0])
        try:
            if not prepared:
                _prepare(cell)
                prepared = True
            _fork(channel, requests, cell, setup)
        except OSError as exc:
            keeper.tell_gateway(channel, plan.FAILED, exc.errno or errno.EIO)
        channel.close()


def _prepare(cell: KeeperPlan) -> None:
    """What all keepers of this process share: they inherit it, and need not do it again."""
    if cell.kind in plan.CONFINED:
        groups.join_group(cell.limits)
        confine.forbid_new_privileges()
        rules = landlock.make_port_rules(cell)
        if rules is not None:
            landlock.restrict_thread(rules)
            os.close(rules)


def _fork(channel: socket.socket, requests: socket.socket, cell: KeeperPlan, setup: keeper.KeeperSetup) -> None:
    flags = keeper.list_new_namespaces(cell)
    made = syscalls.fork_into(flags) if flags else os.fork()
    if not made:
        requests.close()
        keeper.keep_command(channel, cell, setup)
