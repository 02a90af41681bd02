"""Keys of OpenClaw's config that are known and not acted on, with the reason. Everything below such a key is, too.

The table: a reason, and below it rows of a place and the names there. A file that has one loads; whoever wrote it is
told once, with the line (`load`, `explain`, doctor, the page).
`*` is any name; `agents.*` is agents.defaults and every agent, a channel's keys are its accounts' too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from palinurus.config.keypath import Path

_KEYS = """
containers have no browser: docs/browser.md
  . tools.browser
  agents.*.sandbox browser
a browser of ours is started over a pipe, in a sandbox, and looks like any other
  browser color attachOnly cdpUrl cdpPort remoteCdpTimeoutMs remoteCdpHandshakeTimeoutMs extraArgs snapshotDefaults
  browser controlUrl relayBindHost cdpPortRangeStart tabCleanup.sweepMinutes
  browser.profiles.* color attachOnly cdpPort driver
no voice has a persona
  tts persona personas
  messages.tts persona personas
  agents.*.tts persona personas
what /tts says is kept with the sessions
  tts prefsPath
  messages.tts prefsPath
  agents.*.tts prefsPath
nobody listens in without being asked
  talk realtime consultThinkingLevel consultFastMode
  channels *.voice
speech is set for an agent, not for a channel
  channels *.tts
the gateway serves a canvas on its own port, and draws it again when it is presented again
  canvasHost port liveReload
nodes are paired by a code or a person, and offer what docs/nodes.md lists
  . bridge
  nodeHost browserProxy mcp autoUpdate skills
  gateway nodes.pairing push
nothing is announced on the network
  . discovery gateway.tailscale
  gateway auth.allowTailscale
there is no such channel
  channels imessage nostr twitch zalo zalouser
no plugin of that kind
  plugins slots installs bundledDiscovery
  agents *.plugins
a command or a provider says it
  tools.media.audio.models.[] type
code does not come from the config
  . hooks.transformsDir
  hooks.mappings.[] transform
Pub/Sub is set up by hand, or with gog
  hooks.gmail subscription
a tunnel is made by hand: ssh -L
  gateway.remote transport sshTarget sshIdentity
nothing updates itself: update.run is asked for
  . update
the page looks as it looks
  . gateway.webchat
  gateway.controlUi root chatMessageMaxWidth
the page embeds nothing
  gateway.controlUi embedSandbox allowExternalEmbedUrls
it would let strangers in
  gateway.controlUi allowInsecureAuth dangerouslyDisableDeviceAuth
  gateway.controlUi dangerouslyAllowHostHeaderOriginFallback
  . gateway.allowRealIpFallback
  gateway.auth.trustedProxy deviceAuth
  channels *.dangerouslyAllowNameMatching
nothing makes or watches video, or makes music
  agents.* videoGenerationModel musicGenerationModel
  tools.media video asyncCompletion models
  . tools.links
Discord never shows previews of our links: a preview fetches what a model wrote
  channels.discord suppressEmbeds
chats are told apart by their ids, accounts by their place in the file
  channels.*.guilds.* slug
  . channels.telegram.name channels.matrix.name channels.discord.name channels.slack.name channels.signal.name
  . channels.whatsapp.name channels.mattermost.name channels.googlechat.name channels.msteams.name channels.irc.name
  . channels.feishu.name channels.line.name channels.bluebubbles.name channels.nextcloud-talk.name
bots are in no such chats
  channels.discord.dm groupChannels groupEnabled
who may do what is said elsewhere: by tools, approvals and the lists of people
  channels.* execApprovals.target threadBindings
  channels.*.actions moderation permissions roles stickers sticker channels presence stickerUploads emojiUploads
  commands useAccessGroups nativeSkills
the platform's library decides
  channels.* network socketMode reactionNotifications reactionAllowlist
  channels.* ui.components slashCommand thread
  channels.*.streaming nativeTransport progress
  channels.matrix initialSyncLimit
  channels.mattermost commands.callbackPath commands.callbackUrl commands.nativeSkills interactions
the address is /channels/NAME/ACCOUNT: docs/channels.md
  channels.* webhookPath webhookHost webhookPort webhookPublicUrl webhook
apps of Google Chat have no sign of writing, and keys come from a file or the config
  channels.googlechat typingIndicator serviceAccountRef appPrincipal
what lies in SharePoint takes rights that a personal agent should not have
  channels.msteams sharePointSiteId
Feishu's documents are no chat; topics are always threads, and names are always asked for
  channels.feishu tools replyInThread groupSessionScope topicSessionMode resolveSenderNames dynamicAgentCreation
  channels.feishu renderMode typingIndicator httpTimeoutMs xActionsAllowFrom
a signature is always checked
  channels.sms dangerouslyDisableSignatureValidation
programs are started by the gateway, not by a template
  agents.*.cliBackends.* imageArg imageMode modelArg output sessionArg sessionMode systemPromptArg systemPromptWhen
  agents.*.runtime.acp backend
  acp backend dispatch runtime
  acp.stream coalesceIdleMs maxChunkChars repeatSuppression
memory is searched by words
  agents.*.memorySearch model provider remote
only http/protobuf is spoken
  diagnostics.otel protocol
a server that wants a sign-in says so itself: pal mcp login NAME
  mcp.servers.* auth
not built
  diagnostics memoryPressureSnapshot
  commands debug text
  mcp.servers.* codex
  messages.groupChat unmentionedInbound
  channels modelByChannel
  channels.*.guilds.* ignoreOtherMentions reactionNotifications skills
  channels.*.guilds.*.channels.* skills
  channels.*.channels.* skills allowBots
  channels.*.groups.* skills
  channels.*.groups.*.topics.* skills
  tools.web.fetch provider
  . approvals cli commitments crestodian proxy surfaces transcripts agents.ownership
  agents.* traceDefault cwd utilityModel systemPromptOverride modelPolicy memory
  agents.* experimental embeddedPi embeddedAgent envelopeTimestamp
  agents.* envelopeElapsed envelopeTimezone additionalSystemPrompt silentReplyRewrite llm
  agents.* systemAgent description agentDir subagents.announceTimeoutMs
  agents.* heartbeat.suppressToolErrorWarnings
  agents.*.models.* streaming codeMode
  agents.* model.timeoutMs imageModel.timeoutMs subagents.model.timeoutMs subagents.model.fallbacks
  agents.*.sandbox ssh prune
  agents.*.compaction provider postIndexSync truncateAfterCompaction
  agents.*.contextPruning.tools alsoAllow
  cron store triggers
  session maintenance.rotateBytes groupScope store transcriptRetentionDays maxRecentTurns
  session parentForkMaxTokens agentToAgent threadBindings writeLock
  auth.profiles.* email displayName
  gateway.http.endpoints.chatCompletions maxBodyBytes maxTotalImageBytes
  gateway.http.endpoints.chatCompletions maxImageParts images
  web heartbeatSeconds whatsapp
  gateway tls.caPath
  skills install workshop
  messages messagePrefix statusReactions suppressToolErrors usageTemplate
  messages responseUsage
  models bedrockDiscovery proxy
  models.providers.* auth region request injectNumCtxForOpenAICompat localService
  models.providers.*.models.[] baseUrl thinkingLevelMap mediaInput
  models.providers.*.models.[] cost.tieredPricing
  tools toolSearch codeMode swarm
  tools.loopDetection postCompactionGuard
  tools.exec pathPrepend safeBinProfiles strictInlineEval commandHighlighting reviewer
  tools.exec approvalRunningNoticeMs
"""


ACTION_WORDS = frozenset(
    "channelInfo deleteMessage editMessage emojiList events memberInfo messages pins poll polls reactions roleInfo"
    " search sendMessage threads voiceStatus".split()
)


@cache
def list_inert() -> dict[str, str]:
    """Every such key, and the reason."""
    made: dict[str, str] = {}
    reason = ""
    for line in _KEYS.strip().splitlines():
        if not line.startswith(" "):
            reason = line
            continue
        place, *names = line.split()
        made |= {name if place == "." else f"{place}.{name}": reason for name in names}
    return made


@cache
def _tree() -> dict[str, Any]:
    """The table as a tree of names; a text is the reason."""
    made: dict[str, Any] = {}
    for key, reason in list_inert().items():
        *around, last = key.split(".")
        node = made
        for part in around:
            node = node.setdefault(part, {})
        node[last] = reason
    return made


def find_reason(path: Path) -> str:
    """Why the key at `path`, or one around it, is known and not acted on; "" if it is not one of those."""
    return _find(_tree(), _plain(path))


def list_written_inert(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The inert keys of a config, the outermost of each, with the reason."""
    for part, below in value.items() if isinstance(value, dict) else enumerate(value):
        here = (*path, part)
        if isinstance(part, str) and (reason := find_reason(here)):
            yield here, reason
        elif isinstance(below, dict | list):
            yield from list_written_inert(below, here)


def _find(node: Any, parts: tuple[str, ...]) -> str:
    if isinstance(node, str):
        return node
    if not parts:
        return ""
    found = (_find(node[name], parts[1:]) for name in dict.fromkeys((parts[0], "*")) if name in node)
    return next((reason for reason in found if reason), "")


def _plain(path: Path) -> tuple[str, ...]:
    parts = ["[]" if isinstance(part, int) else part for part in path]
    if parts[:1] == ["agents"] and parts[1:2] in (["defaults"], ["list"], ["entries"]):
        parts[1 : 2 if parts[1] == "defaults" else 3] = ["*"]
        if parts[2:3] == ["tools"]:  # an agent's tools are written as everybody's are
            del parts[:2]
    elif parts[:1] == ["channels"] and parts[2:3] == ["accounts"]:
        del parts[2:4]
    return tuple(parts)
