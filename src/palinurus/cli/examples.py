"""One or two lines that work, for the help of every command (`CommandParser.format_help`)."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "chat": ("pal chat --session notes",),
    "agent": ('pal agent -m "what is in notes.txt?"', "git log -5 | pal agent -m - --json"),
    "gateway": ("pal gateway", "pal gateway install", "pal gateway status"),
    "dashboard": ("pal dashboard",),
    "setup": ("pal setup", "pal setup --yes"),
    "import": ("pal import openclaw --dry-run", "pal import hermes --only memory,sessions"),
    "export": ("pal export --to openclaw ~/back",),
    "status": ("pal status", "pal status --json"),
    "doctor": ("pal doctor", "pal doctor --fix", "pal doctor --json"),
    "sessions": ("pal sessions", "pal sessions search invoice --since 7d", "pal sessions export main -o talk.html"),
    "agents": ("pal agents add work --workspace ~/work", "pal agents bind telegram:work --agent work"),
    "models": ("pal models", "pal models use anthropic/claude-opus-4-6", "pal models pull"),
    "policy": ("pal policy explain exec", "pal policy why exec"),
    "prompt": ("pal prompt show", "pal prompt show --json"),
    "why": ("pal why", "pal why cost", "pal why tool exec"),
    "record": ("pal record on", "pal record status"),
    "replay": ("pal replay --all",),
    "diff": ("pal diff A B",),
    "changes": ("pal changes",),
    "undo": ("pal undo",),
    "redo": ("pal redo",),
    "usage": ("pal usage", "pal usage --json"),
    "cron": ('pal cron add --at 20m --message "look at the oven"', "pal cron list", "pal cron why JOB"),
    "system": ('pal system event "the parcel is here"',),
    "tasks": ("pal tasks",),
    "skills": ("pal skills", "pal skills search pdf", "pal skills info NAME"),
    "plugins": ("pal plugins new my-plugin", "pal plugins test my-plugin", "pal plugins enable my-plugin"),
    "mcp": ("pal mcp list", "pal mcp test NAME"),
    "memory": ("pal memory search sailing", "pal memory why MEMORY.md"),
    "learn": ("pal learn", "pal learn show ID", "pal learn accept ID"),
    "approvals": ("pal approvals", "pal approvals answer 1a2b3c4d allow-once"),
    "channels": ("pal channels list --all", "pal channels add telegram", "pal channels status"),
    "directory": ("pal directory peers",),
    "message": ('pal message send --channel telegram --target 123 --message "on my way"',),
    "pairing": ("pal pairing", "pal pairing approve CODE"),
    "devices": ("pal devices", "pal devices approve ID"),
    "node": ("pal node run --code CODE", "pal node status"),
    "nodes": ("pal nodes", "pal nodes pair"),
    "fleet": ("pal fleet status",),
    "store": ("pal store copy --help",),
    "sandbox": ("pal sandbox explain", "pal sandbox test"),
    "security": ("pal security audit",),
    "backup": ("pal backup create", "pal backup verify FILE", "pal backup restore FILE"),
    "extras": ("pal extras", "pal extras add telegram"),
    "profiles": ("pal profiles", "pal --profile work chat"),
    "config": (
        "pal config",
        "pal config explain tools.exec",
        "pal config set agents.defaults.permissionMode ask",
    ),
    "acp": ("pal acp",),
    "logs": ("pal logs --follow",),
    "trace": ("pal trace", "pal trace 01JD --json"),
}


def list_examples(command: str) -> tuple[str, ...]:
    """Those of one command."""
    return EXAMPLES.get(command, ())
