"""Every method clients can call: one table, a file per family."""

from __future__ import annotations

from palinurus.gateway.methods import (
    agent,
    agents,
    approvals,
    change,
    channels,
    chat,
    checkpoints,
    config,
    cron,
    devices,
    menus,
    sessions,
    setup,
    skills,
    system,
    tasks,
    tools,
    usage,
    why,
)
from palinurus.gateway.rpc import GatewayMethod, make_method_table

METHODS: dict[str, GatewayMethod] = make_method_table(
    system.CORE_METHODS,
    system.METHODS,
    devices.METHODS,
    chat.METHODS,
    why.METHODS,
    agent.METHODS,
    sessions.METHODS,
    change.METHODS,
    checkpoints.METHODS,
    usage.METHODS,
    agents.METHODS,
    agents.ROSTER_METHODS,
    menus.COMMAND_METHODS,
    menus.METHODS,
    tools.METHODS,
    skills.METHODS,
    agents.MEMORY_METHODS,
    tasks.METHODS,
    approvals.METHODS,
    config.METHODS,
    cron.METHODS,
    channels.METHODS,
    setup.METHODS,
    config.EXPLAIN_METHODS,
)
