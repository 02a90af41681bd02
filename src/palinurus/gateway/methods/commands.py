"""commands.list: what people can type, for completion and menus."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.keys import SessionKey
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context
from palinurus.inbox.commands.table import build_menu


class CommandListParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    scope: str | None = None
    include_args: bool | None = None
    provider: str | None = None


async def list_commands(call: MethodCall, asked: CommandListParams) -> dict[str, Any]:
    """Commands, directives and the agent's skills."""
    desk = get_context(call).desk
    rows = [
        {
            "name": row["name"],
            "nativeName": row["name"],
            "textAliases": [f"/{name}" for name in (row["name"], *row["aliases"])],
            "description": row["description"],
            "category": row["group"],
            "source": "plugin" if row["name"] in desk.commands else "native",
            "scope": "both",
            "acceptsArgs": bool(row["usage"]),
            "usage": row["usage"],
        }
        for row in build_menu(owner=call.client.may(ADMIN), more=desk.commands)
    ]
    agent = asked.agent_id if asked.agent_id in desk.settings.agents else desk.settings.default_agent
    key = SessionKey(agent or desk.settings.default_agent, desk.settings.session.main_key)
    rows += [
        {
            "name": f"skill {skill.name}",
            "textAliases": [f"/skill {skill.name}"],
            "description": skill.description,
            "category": "skills",
            "source": "skill",
            "scope": "text",
            "acceptsArgs": True,
        }
        for skill in desk.skills(key)
    ]
    return {"commands": rows}


COMMAND_METHODS: tuple[GatewayMethod, ...] = (GatewayMethod("commands.list", READ, CommandListParams, list_commands),)
