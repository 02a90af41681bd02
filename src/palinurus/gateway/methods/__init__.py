"""Every method clients can call: one table, a file per family."""

from __future__ import annotations

from palinurus.gateway.methods import (
    agent,
    agents,
    approvals,
    change,
    chat,
    checkpoints,
    commands,
    config,
    core,
    cron,
    devices,
    memory,
    models,
    roster,
    sessions,
    skills,
    subagents,
    system,
    tasks,
    tools,
    usage,
    why,
)
from palinurus.gateway.rpc import Method, table

METHODS: dict[str, Method] = table(
    core.METHODS,
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
    roster.METHODS,
    commands.METHODS,
    models.METHODS,
    tools.METHODS,
    skills.METHODS,
    memory.METHODS,
    tasks.METHODS,
    subagents.METHODS,
    approvals.METHODS,
    config.METHODS,
    cron.METHODS,
)
