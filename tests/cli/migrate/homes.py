"""Homes of other programs as these programs write them (looked at in real ones: `make compat` makes those)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import zstandard

KEY = "agent:main:main"
TALK = (
    {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/x"},
    {"type": "message", "id": "a1", "parentId": None, "timestamp": "2026-01-02T03:04:06.000Z",
     "message": {"role": "user", "content": [{"type": "text", "text": "remember the milk"}], "timestamp": 1}},
    {"type": "message", "id": "a2", "parentId": "a1", "timestamp": "2026-01-02T03:04:07.000Z",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "I will."}], "api": "openai-completions",
                 "provider": "mock", "model": "model", "stopReason": "stop", "timestamp": 2}},
)  # fmt: skip
JOB = {
    "id": "j-1", "name": "brief", "enabled": True, "schedule": {"kind": "cron", "expr": "0 8 * * *"},
    "sessionTarget": "isolated", "wakeMode": "now", "payload": {"kind": "agentTurn", "message": "morning brief"},
    "createdAtMs": 1, "updatedAtMs": 1, "state": {},
}  # fmt: skip


def put(root: Path, name: str, data: Any) -> None:
    """A file, with its folders; what is no text becomes JSON."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data))


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def make_config(root: Path) -> None:
    put(root, "openclaw.json", """{
        // by hand
        agents: {defaults: {workspace: "~/.openclaw/workspace", model: {primary: "mock/model"}},
                 list: [{id: "main", default: true}, {id: "work", workspace: "~/.openclaw/workspace-work"}]},
        models: {providers: {mock: {baseUrl: "http://127.0.0.1:9/v1", apiKey: "sk-very-secret",
                                    models: [{id: "model"}]}}},
        channels: {telegram: {enabled: false, botToken: "1:abc"}, nostr: {enabled: true}},
        discovery: {mdns: {mode: "off"}},
        nonsense: 1,
    }""")  # fmt: skip


def make_openclaw(home: Path) -> Path:
    """As versions up to 2026.6 keep it: files, and a database for some things."""
    root = home / ".openclaw"
    make_config(root)
    put(root, "workspace/SOUL.md", "I am Molty.\n")
    put(root, "workspace/MEMORY.md", "The owner likes tea.\n")
    put(root, "workspace/memory/2026-01-02.md", "bought milk\n")
    put(root, "workspace-work/notes.txt", "plan\n")
    put(root, "skills/mine/SKILL.md", "---\nname: mine\ndescription: my own\n---\nDo it.\n")
    put(root, "agents/main/sessions/sessions.json", {
        KEY: {"sessionId": "s-1", "updatedAt": 1_700_000_000_000, "sessionFile": "/elsewhere/s-1.jsonl",
              "thinkingLevel": "high", "skillsSnapshot": {"prompt": "x" * 1000}, "lastChannel": "telegram"},
        "agent:main:gone": {"sessionId": "s-9"},
    })  # fmt: skip
    put(root, "agents/main/sessions/s-1.jsonl", lines(*TALK))
    put(root, "agents/main/sessions/s-0.jsonl.reset.2026-01-01T00-00-00.000Z", lines(TALK[0]))
    put(root, "agents/main/agent/auth-profiles.json", {
        "version": 1, "profiles": {"anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "sk-ant"}},
    })  # fmt: skip
    put(
        root,
        "cron/jobs.json",
        {"version": 1, "jobs": [JOB, {**JOB, "id": "j-2", "name": "odd", "schedule": {"kind": "moon"}}]},
    )
    put(root, "credentials/telegram-allowFrom.json", {"version": 1, "allowFrom": ["4711"]})
    put(root, "exec-approvals.json", {"version": 1, "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/git"}]}}})
    put(root, ".env", "# keys\nexport GROQ_API_KEY='sk-very-secret-too'\n")
    put(root, "extensions/mine/index.js", "x")
    put(root, "surprise.bin", "x")
    return root


def make_new_openclaw(home: Path) -> Path:
    """As 2026.9 keeps it: sessions, keys, jobs, people and rules are rows."""
    root = home / ".openclaw"
    make_config(root)
    put(root, "workspace/SOUL.md", "I am Molty.\n")
    (root / "state").mkdir()
    (root / "agents/main/agent").mkdir(parents=True)
    with sqlite3.connect(root / "state/openclaw.sqlite") as base:
        base.execute("CREATE TABLE cron_jobs (store_key, job_id, job_json)")
        base.execute("INSERT INTO cron_jobs VALUES ('x', 'j-1', ?)", [json.dumps(JOB)])
        upkeep = {**JOB, "id": "j-3", "name": "heartbeat-main", "declarationKey": "heartbeat:main"}
        base.execute("INSERT INTO cron_jobs VALUES ('x', 'j-3', ?)", [json.dumps(upkeep)])
        base.execute("CREATE TABLE exec_approvals_config (config_key, raw_json)")
        rules = {"version": 1, "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/git"}]}}}
        base.execute("INSERT INTO exec_approvals_config VALUES ('x', ?)", [json.dumps(rules)])
        base.execute("CREATE TABLE channel_pairing_allow_entries (channel_key, account_id, entry)")
        base.execute("INSERT INTO channel_pairing_allow_entries VALUES ('telegram', 'default', '4711')")
        base.execute("CREATE TABLE channel_pairing_requests (channel_key, account_id, request_id)")
        base.execute("INSERT INTO channel_pairing_requests VALUES ('telegram', 'default', '99')")
        base.execute("CREATE TABLE device_pairing_paired (device_id)")
        base.execute("INSERT INTO device_pairing_paired VALUES ('phone')")
    with sqlite3.connect(root / "agents/main/agent/openclaw-agent.sqlite") as base:
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("CREATE TABLE session_nodes (session_key, current_session_id, entry_json, updated_at)")
        base.execute("INSERT INTO session_nodes VALUES (?, 's-1', ?, 5)", [KEY, json.dumps({"thinkingLevel": "high"})])
        base.execute("CREATE TABLE transcript_events (session_id, seq, event_json, created_at, event_zstd)")
        rows = [("s-1", n, json.dumps(row), n, None) for n, row in enumerate(TALK[:2])]
        rows.append(("s-1", 2, None, 2, zstandard.compress(json.dumps(TALK[2]).encode())))
        old = [("s-0", 0, json.dumps({**TALK[0], "id": "s-0"}), 0, None), ("s-0", 1, json.dumps(TALK[1]), 0, None)]
        base.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)", [*reversed(rows), *old])
        base.execute("CREATE TABLE auth_profile_store (store_key, store_json)")
        keys = {"profiles": {"anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "sk-ant"}}}
        base.execute("INSERT INTO auth_profile_store VALUES ('x', ?)", [json.dumps(keys)])
    return root


CHAT = (
    {"role": "user", "content": "what is in notes.txt?", "timestamp": "2026-01-02T03:04:05"},
    {"role": "assistant", "content": None, "timestamp": "2026-01-02T03:04:06",
     "tool_calls": [{"id": "c1", "type": "function",
                     "function": {"name": "read_file", "arguments": '{"path": "notes.txt"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "name": "read_file", "content": "plan", "timestamp": "2026-01-02T03:04:07"},
    {"role": "assistant", "content": "A plan.", "timestamp": "2026-01-02T03:04:08"},
)  # fmt: skip


def make_nanobot(home: Path) -> Path:
    root = home / ".nanobot"
    put(root, "config.json", {
        "agents": {"defaults": {"model": "claude-opus-4-5", "provider": "anthropic", "timezone": "Europe/Berlin"}},
        "providers": {"anthropic": {"apiKey": "sk-very-secret"}, "groq": {"apiKey": None}},
        "channels": {"telegram": {"enabled": False, "token": "1:abc", "allowFrom": ["4711"], "reactEmoji": "x"}},
        "tools": {"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"]}}},
    })  # fmt: skip
    put(root, "workspace/SOUL.md", "I am a cat.\n")
    put(root, "workspace/memory/MEMORY.md", "The owner likes tea.\n")
    head = {
        "_type": "metadata",
        "key": "telegram:4711",
        "created_at": "2026-01-02T03:04:05",
        "updated_at": "2026-01-02T03:04:08",
    }
    put(root, "sessions/0123abcd/telegram_4711.jsonl", lines(head, *CHAT))
    put(root, "cron/jobs.json", {"version": 1, "jobs": [
        {"id": "n-1", "name": "brief", "enabled": True, "schedule": {"kind": "every", "everyMs": 7_200_000},
         "payload": {"kind": "agent_turn", "message": "morning brief", "channel": "telegram", "to": "4711"}},
        {"id": "dream", "name": "dream", "schedule": {"kind": "every"}, "payload": {"kind": "system_event"}},
    ]})  # fmt: skip
    # where 0.3.5 keeps jobs; what was changed while its gateway did not run is a list of changes, spelled otherwise
    put(root, "workspace/cron/action.jsonl", lines(
        {"action": "add", "params": {
            "id": "n-2", "name": "tea", "schedule": {"kind": "cron", "expr": "0 9 * * *", "every_ms": None},
            "payload": {"message": "tea", "origin_channel": "telegram", "origin_chat_id": "4711"}}},
        {"action": "add", "params": {"id": "n-3", "name": "gone", "schedule": {"kind": "cron", "expr": "0 9 * * *"}}},
        {"action": "del", "params": {"job_id": "n-3"}},
    ))  # fmt: skip
    put(root, "pairing.json", {"approved": {"telegram": ["4712"]}, "pending": {}})
    return root


def make_hermes(home: Path) -> Path:
    root = home / ".hermes"
    put(root, "config.yaml", "model:\n  default: claude-opus-4-5\n  provider: anthropic\nmcp_servers:\n  files:\n"
        "    command: npx\n    args: [\"-y\", \"x\"]\nterminal:\n  backend: local\n")  # fmt: skip
    put(
        root,
        ".env",
        "# keys\nANTHROPIC_API_KEY=sk-very-secret\nTELEGRAM_BOT_TOKEN='1:abc'\nTELEGRAM_ALLOWED_USERS=12,13\n",
    )
    put(root, "SOUL.md", "I am Hermes.\n")
    put(root, "memories/MEMORY.md", "The owner likes tea.\n")
    put(root, "skills/mail/triage/SKILL.md", "---\nname: triage\ndescription: mail\n---\nDo it.\n")
    put(root, "cron/jobs.json", {"jobs": [
        {"id": "h-1", "name": "brief", "prompt": "morning brief", "schedule": {"kind": "cron", "expr": "0 8 * * *"},
         "deliver": "telegram:12", "enabled": True},
        {"id": "h-2", "name": "odd", "prompt": "x", "schedule": {"kind": "moon"}},
    ]})  # fmt: skip
    put(root, "pairing/telegram-approved.json", {"4711": {"name": "Ann"}})
    with sqlite3.connect(root / "state.db") as base:
        base.execute("CREATE TABLE sessions (id, source, chat_id, chat_type, title, model, started_at, ended_at)")
        base.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role, content, tool_call_id,"
                     " tool_calls, tool_name, timestamp)")  # fmt: skip
        for ident, at in (("s-old", 1.0), ("s-new", 100.0)):
            base.execute("INSERT INTO sessions VALUES (?, 'telegram', '12', 'dm', NULL, 'anthropic/claude', ?, NULL)",
                         [ident, at])  # fmt: skip
            for number, row in enumerate(CHAT):
                calls = json.dumps(row["tool_calls"]) if "tool_calls" in row else None
                base.execute("INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name,"
                             " timestamp) VALUES (?, ?, ?, ?, ?, ?, ?)",
                             [ident, row["role"], row["content"], row.get("tool_call_id"), calls, row.get("name"),
                              at + number])  # fmt: skip
    return root
