"""A plugin that brings one of each: a tool, a hook, a command, a vendor and a subcommand of `pal`."""

from __future__ import annotations

from typing import Annotated, Any

from palinurus import hook, tool
from palinurus.core.types.tool import ToolFailure
from palinurus.core.types.vendor import Vendor, VendorModel
from palinurus.plugins.api import PluginApi, PluginCommandCall


def register(api: PluginApi) -> None:
    """Say what the plugin brings. `api.config` has been checked against the manifest's schema."""
    ports: dict[str, str] = api.config["ports"]

    @tool(effect="pure")
    def high_water(port: Annotated[str, "name of the port"]) -> dict[str, str]:
        """When the next high water is at a port."""
        if port not in ports:
            raise ToolFailure(f"no tides are known for {port}; known ports: {', '.join(sorted(ports))}")
        return {"port": port, "highWater": ports[port]}

    @hook("message_sending", priority=5)
    def signed(event: dict[str, Any]) -> dict[str, Any] | None:
        """Every reply carries the signature, if there is one."""
        signature = api.config["signature"]
        return {"content": f"{event['content']}\n{signature}"} if signature else None

    def tides(asked: PluginCommandCall) -> str:
        return "\n".join(f"{port} {time}" for port, time in sorted(ports.items()) if asked.args in ("", port))

    def printed(args: list[str]) -> int:
        for port in args or sorted(ports):
            print(f"{port} {ports.get(port, '?')}")
        return 0

    api.tool(high_water)
    api.hook(signed)
    api.command("tides", "high water of all ports, or of one", tides, usage="[PORT]")
    api.cli("tides", printed)
    api.vendor(
        Vendor(
            id="harbour",
            name="Harbour models",
            api="openai-completions",
            base_url=api.config["modelsUrl"],
            keys=("HARBOUR_API_KEY",),
            models=(VendorModel("pilot-1", "Pilot 1", context_window=64_000),),
        )
    )
