"""Every method clients can call: one table, a file per family."""

from __future__ import annotations

from palinurus.gateway.keep import prompts, shares
from palinurus.gateway.manage import editors, forms, push, skillstore
from palinurus.gateway.mcp import signins
from palinurus.gateway.methods import (
    agent,
    agents,
    approvals,
    canvas,
    change,
    channels,
    chat,
    checkpoints,
    config,
    cron,
    devices,
    fleet,
    menus,
    nodes,
    sessions,
    setup,
    skills,
    speech,
    system,
    tasks,
    tools,
    tree,
    usage,
    why,
)
from palinurus.gateway.methods.theirs import host, names, wizard
from palinurus.gateway.rpc import GatewayMethod, make_method_table

_FAMILIES = (
    *(system, devices, chat, why, agent, sessions, change, checkpoints, tree, usage, agents),
    *(forms, skillstore, push, editors, host, names, wizard),
    *(menus, tools, skills, tasks, approvals, config, cron, channels, setup, speech, nodes, canvas, fleet, signins),
    *(shares, prompts),
)
METHODS: dict[str, GatewayMethod] = make_method_table(*(family.METHODS for family in _FAMILIES))
