"""OpenClaw's names for what this program has under another: notices, pairing, skills of a registry, branches, files
of conversations and workspaces. And lists that are empty because what they list cannot be here. Nothing is kept.
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
import stat
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta

from palinurus.beneath import open_folder_beneath, read_file_beneath
from palinurus.errors import BadRequest
from palinurus.gateway import attachments
from palinurus.gateway.context import SessionParams, find_agent, require
from palinurus.gateway.manage import push, skillstore
from palinurus.gateway.mcp.signins import VendorLogoutParams, log_out_of_vendor
from palinurus.gateway.methods import channels, tree
from palinurus.gateway.rpc import (
    ADMIN,
    APPROVALS,
    PAIRING,
    READ,
    WRITE,
    GatewayMethod,
    MethodCall,
    MethodError,
    MethodParams,
    NonEmpty,
    NoParams,
)
from palinurus.inbox.pairing import VALID
from palinurus.services.skillstore import open_registry
from palinurus.sessions.entries import to_iso
from palinurus.sessions.tree import list_path_to, list_tips, summarize_entry

LARGEST = 2 * 1024 * 1024  # bytes of a file that is shown
# What would be listed cannot be here, and a client that asks is told that there is none.
NONE: dict[str, tuple[str, Any]] = {
    "openclaw.approval.list": (APPROVALS, []),  # of the program that sets OpenClaw up
    "question.list": (READ, {"questions": []}),  # agents ask in the conversation
    "sessions.groups.list": (READ, {"groups": []}),
    "usage.status": (READ, {"updatedAt": 0, "providers": []}),  # no vendor is asked for its quota; usage.cost counts
    "tts.personas": (READ, {"active": None, "personas": []}),
    "skills.securityVerdicts": (READ, {"schema": "openclaw.skills.security-verdicts.v1", "items": []}),
    "skills.proposals.list": (
        READ,
        {"schema": "openclaw.skill-workshop.proposals-manifest.v1", "updatedAt": "1970-01-01T00:00:00.000Z",
         "proposals": [], "installedSkills": []},
    ),
    "skills.curator.status": (
        READ,
        {"lastAttemptAtMs": None, "lastSuccessAtMs": None, "lastError": None,
         "counts": {"active": 0, "stale": 0, "archived": 0}, "skills": [], "overlaps": []},
    ),
    "skills.library.list": (
        READ,
        {"entries": [], "profileId": None, "multipleProfiles": False, "defaultTarget": "unavailable",
         "canManageWorkspace": False, "defaultSelectionLimit": 64},
    ),
    "plugins.uiDescriptors": (READ, {"ok": True, "descriptors": []}),
}  # fmt: skip


class WebPushParams(push.PushSubscribeParams, frozen=True):
    keys: dict[str, str] | None = None  # not used: a vendor gets an empty message, so there is nothing to encrypt


async def get_vapid_key(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    return {"vapidPublicKey": (await push.get_push_key(call, asked))["publicKey"]}


async def subscribe_web_push(call: MethodCall, asked: WebPushParams) -> dict[str, Any]:
    """Its worker shows that there is something; the words are for our own page's worker, which has the secret."""
    await push.subscribe_push(call, asked)
    return {"subscriptionId": call.client.caller.device}


async def unsubscribe_web_push(call: MethodCall, asked: WebPushParams) -> dict[str, Any]:
    await push.unsubscribe_push(call, NoParams())
    return {"removed": True}


async def try_web_push(call: MethodCall, asked: None) -> dict[str, Any]:
    done = await push.try_push(call, NoParams())
    if not done["ok"]:
        raise MethodError(str(done["problem"]), code="UNAVAILABLE")
    return {"results": [{"ok": True, "subscriptionId": call.client.caller.device}]}


class ChatPairingParams(MethodParams, frozen=True):
    channel: NonEmpty | None = None
    account_id: NonEmpty | None = None
    request_id: str = ""  # the code
    notify: bool = True
    bootstrap_command_owner: bool = False  # the first who is let in by the owner is the owner's anyway


async def list_chat_pairings(call: MethodCall, asked: ChatPairingParams) -> dict[str, Any]:
    """Those who wait, and the accounts that they wrote to."""
    chats = require(call.program.chats, channels.NO_CHATS)
    lines = [one for one in chats.receivers.all() if asked.channel in (None, one.channel)]
    accounts = [{**_name_account(one.channel, one.account), "notifySupported": True} for one in lines]
    waiting = (await channels.list_pairings(call, channels.PairingListParams(asked.channel)))["requests"]
    requests = [
        {**_name_account(one["channel"], one["accountId"]), "requestId": one["code"], "senderId": one["id"],
         "senderLabel": one["name"] or one["id"], "createdAt": to_iso(one["createdAtMs"]),
         "lastSeenAt": to_iso(one["createdAtMs"]), "expiresAt": to_iso(one["expiresAtMs"]), "notifySupported": True}
        for one in waiting
    ]  # fmt: skip
    limits = {"pendingPerAccount": 3, "ttlMs": VALID}
    return {"accounts": accounts, "requests": requests, "commandOwnerConfigured": True, "limits": limits}


def _name_account(channel: str, account: str) -> dict[str, Any]:
    return {"channel": channel, "channelLabel": channel.capitalize(), "accountId": account}


async def approve_chat_pairing(call: MethodCall, asked: ChatPairingParams) -> dict[str, Any]:
    told = await channels.approve_pairing(call, channels.PairingCodeParams(asked.request_id, notify=asked.notify))
    said = {"notification": "sent" if asked.notify else "not-requested", "commandOwnerBootstrap": "not-requested"}
    return {"requestId": asked.request_id, "senderId": told["id"], **said}


async def dismiss_chat_pairing(call: MethodCall, asked: ChatPairingParams) -> dict[str, Any]:
    told = await channels.reject_pairing(call, channels.PairingCodeParams(asked.request_id))
    return {"requestId": asked.request_id, "senderId": told["id"]}


class ChatPollParams(MethodParams, frozen=True):
    to: NonEmpty
    question: NonEmpty
    options: Annotated[tuple[NonEmpty, ...], Meta(min_length=2, max_length=12)]
    idempotency_key: NonEmpty
    channel: NonEmpty
    max_selections: Annotated[int, Meta(ge=1)] = 1
    account_id: NonEmpty = "default"
    thread_id: str = ""


async def ask_poll(call: MethodCall, asked: ChatPollParams) -> dict[str, Any]:
    """A question with options in a chat, on channels that can."""
    told = {"target": asked.to, "pollQuestion": asked.question, "pollOptions": list(asked.options)}
    params = {
        **told,
        "pollMulti": asked.max_selections > 1,
        **({"threadId": asked.thread_id} if asked.thread_id else {}),
    }
    action = channels.MessageActionParams(
        "poll", params, asked.channel, asked.idempotency_key, account_id=asked.account_id
    )
    done = await channels.run_message_action(call, action)
    return {"runId": asked.idempotency_key, "messageId": done["messageId"], "channel": asked.channel}


class VendorForgetParams(MethodParams, frozen=True):
    provider: NonEmpty
    agent_id: NonEmpty | None = None  # sign-ins are the program's, not an agent's
    profile_id: str = ""


class RegistrySearchParams(MethodParams, frozen=True):
    query: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class RegistrySlugParams(MethodParams, frozen=True):
    slug: Annotated[str, Meta(min_length=1, max_length=200)]


async def forget_vendor(call: MethodCall, asked: VendorForgetParams) -> dict[str, Any]:
    profile = asked.profile_id.partition(":")[2]
    done = await log_out_of_vendor(call, VendorLogoutParams(asked.provider, "" if profile == "default" else profile))
    return {"provider": asked.provider, "removedProfiles": [asked.profile_id or asked.provider], **done}


async def search_registry(call: MethodCall, asked: RegistrySearchParams) -> dict[str, Any]:
    """Without words: nothing, as a registry is asked only when somebody looks for something."""
    if not asked.query.strip():
        return {"results": []}
    found = await skillstore.search_store(call, skillstore.SkillSearchParams(asked.query, min(asked.limit, 50)))
    return {"results": [{"score": 1.0, **row} for row in found["results"]]}


async def describe_registry_skill(call: MethodCall, asked: RegistrySlugParams) -> dict[str, Any]:
    program = call.program
    one = await open_registry(program.settings, program.environ).describe(asked.slug)
    shown = {"slug": one.slug, "displayName": one.name, "summary": one.summary, "createdAt": 0, "updatedAt": 0}
    version = {"version": one.version, "createdAt": 0} if one.version else None
    return {"skill": shown, "latestVersion": version, "owner": {"handle": one.owner or None}, "metadata": None}


class BranchParams(SessionParams, frozen=True, kw_only=True):
    leaf_entry_id: str = ""


class ArtifactParams(MethodParams, frozen=True):
    session_key: NonEmpty
    agent_id: NonEmpty | None = None
    run_id: str = ""
    type: str = ""
    artifact_id: str = ""


class WorkspacePathParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    path: Annotated[str, Meta(max_length=2048)] = ""
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500


async def list_branches(call: MethodCall, asked: BranchParams) -> dict[str, Any]:
    """The ends of what was said; more than one where somebody went back."""
    _, transcript = await call.context.reader.open(asked.resolve(call))
    tips = list_tips(transcript) if transcript is not None else []
    return {
        "branches": [
            {"leafEntryId": tip.entry.id, "headline": summarize_entry(tip.entry), "updatedAt": tip.entry.timestamp,
             "messageCount": len(list_path_to(transcript, tip.entry.id)), "active": tip.here}
            for tip in tips
            if transcript is not None
        ]
    }  # fmt: skip


async def switch_branch(call: MethodCall, asked: BranchParams) -> dict[str, Any]:
    wanted = tree.SessionRewindParams(key=asked.session_key, agent_id=asked.agent_id, entry=asked.leaf_entry_id)
    await tree.rewind_session(call, wanted)
    return {}


async def list_artifacts(call: MethodCall, asked: ArtifactParams) -> dict[str, Any]:
    """Files that came with the messages of a conversation; an id is the message and the number of the file."""
    key = call.context.reader.key(asked.session_key, asked.agent_id)
    _, transcript = await call.context.reader.open(key)
    items = dict.fromkeys(entry.item for entry in (transcript.path_to_leaf() if transcript else ()) if entry.item)
    made = []
    for item in items:
        row = await call.program.store.item(item)
        for at, file in enumerate(attachments.find_sent_files(row) if row is not None else ()):
            kind = file.mime.partition("/")[0]
            if asked.type in ("", kind) and asked.run_id in ("", item):
                told = {"id": f"{item}:{at}", "type": kind, "title": file.name, "mimeType": file.mime}
                made.append({**told, "sizeBytes": file.size, "sessionKey": str(key), "download": {"mode": "bytes"}})
    return {"artifacts": made}


async def get_artifact(call: MethodCall, asked: ArtifactParams) -> dict[str, Any]:
    for one in (await list_artifacts(call, asked))["artifacts"]:
        if one["id"] == asked.artifact_id:
            return {"artifact": one}
    raise MethodError("there is no such artifact in this session", details={"type": "artifact_not_found"})


async def download_artifact(call: MethodCall, asked: ArtifactParams) -> dict[str, Any]:
    found = await get_artifact(call, asked)
    item, _, at = asked.artifact_id.rpartition(":")
    program = call.program
    files = attachments.find_sent_files(await program.store.item(item))
    loaded = await attachments.load_sent_file(program.settings.home, files[int(at)], program.store)
    return {**found, "encoding": "base64", "data": loaded["content"]}


async def list_workspace_folder(call: MethodCall, asked: WorkspacePathParams) -> dict[str, Any]:
    """What lies in one folder. Hidden names are left out, links are not followed."""
    agent = find_agent(call, asked.agent_id)
    found = await asyncio.to_thread(_list_folder, agent.workspace, asked.path.strip("/"))
    page = found[asked.offset : asked.offset + asked.limit]
    parent = {"parentPath": os.path.dirname(asked.path.strip("/"))} if asked.path.strip("/") else {}
    made = {"agentId": agent.id, "path": asked.path.strip("/"), **parent, "entries": page}
    return {**made, "totalEntries": len(found), "offset": asked.offset}


def _list_folder(root: str, inner: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    try:
        with open_folder_beneath(os.path.realpath(root), inner) as place:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
            try:
                for name in os.listdir(handle):
                    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    kind = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}.get(stat.S_IFMT(found.st_mode))
                    if kind is None or name.startswith("."):
                        continue
                    facts = {"size": found.st_size, "updatedAtMs": int(found.st_mtime * 1000)}
                    made.append({"path": os.path.join(inner, name), "name": name, "kind": kind, **facts})
            finally:
                os.close(handle)
    except OSError as exc:
        raise BadRequest(f"{inner or 'the workspace'} cannot be listed: {exc.strerror}") from None
    return sorted(made, key=lambda row: (row["kind"], row["name"]))


async def read_workspace_file(call: MethodCall, asked: WorkspacePathParams) -> dict[str, Any]:
    """One file: text as it is, anything else as base64. The owner's alone: a workspace holds what was never said."""
    agent = find_agent(call, asked.agent_id)
    try:
        data = await asyncio.to_thread(read_file_beneath, agent.workspace, asked.path, LARGEST)
    except OSError as exc:
        raise MethodError(f"{asked.path[:200]} cannot be read: {exc.strerror or exc}") from None
    try:
        encoding, content = "utf8", data.decode()
    except UnicodeDecodeError:
        encoding, content = "base64", base64.b64encode(data).decode()
    mime = mimetypes.guess_type(asked.path)[0] or ("text/plain" if encoding == "utf8" else "application/octet-stream")
    file = {"path": asked.path, "name": os.path.basename(asked.path), "size": len(data), "updatedAtMs": 0}
    return {"agentId": agent.id, "file": {**file, "mimeType": mime, "encoding": encoding, "content": content}}


def _answer(payload: Any) -> Callable[[MethodCall, None], Awaitable[Any]]:
    async def answer(call: MethodCall, asked: None) -> Any:
        return payload

    return answer


METHODS: tuple[GatewayMethod, ...] = (
    *(GatewayMethod(name, scope, None, _answer(payload), listed=False) for name, (scope, payload) in NONE.items()),
    GatewayMethod("push.web.vapidPublicKey", WRITE, NoParams, get_vapid_key),
    GatewayMethod("push.web.subscribe", WRITE, WebPushParams, subscribe_web_push),
    GatewayMethod("push.web.unsubscribe", WRITE, WebPushParams, unsubscribe_web_push),
    GatewayMethod("push.web.test", WRITE, None, try_web_push),
    GatewayMethod("channels.pairing.list", PAIRING, ChatPairingParams, list_chat_pairings),
    GatewayMethod("channels.pairing.approve", PAIRING, ChatPairingParams, approve_chat_pairing),
    GatewayMethod("channels.pairing.dismiss", PAIRING, ChatPairingParams, dismiss_chat_pairing),
    GatewayMethod("poll", WRITE, ChatPollParams, ask_poll),
    GatewayMethod("models.authLogout", ADMIN, VendorForgetParams, forget_vendor),
    GatewayMethod("skills.search", READ, RegistrySearchParams, search_registry),
    GatewayMethod("skills.detail", READ, RegistrySlugParams, describe_registry_skill),
    GatewayMethod("sessions.branches.list", READ, BranchParams, list_branches),
    GatewayMethod("sessions.branches.switch", ADMIN, BranchParams, switch_branch),
    GatewayMethod("artifacts.list", READ, ArtifactParams, list_artifacts),
    GatewayMethod("artifacts.get", READ, ArtifactParams, get_artifact),
    GatewayMethod("artifacts.download", READ, ArtifactParams, download_artifact),
    GatewayMethod("agents.workspace.list", READ, WorkspacePathParams, list_workspace_folder),
    GatewayMethod("agents.workspace.get", ADMIN, WorkspacePathParams, read_workspace_file),
)
