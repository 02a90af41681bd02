"""What becomes of a verb of OpenClaw's command line that is none of ours: it has another name here, and that is run, or
a sentence says what there is instead (exit code 2). Looked at only when a line made no sense; docs/cli-parity.md is
made of it.
"""

from __future__ import annotations

from functools import cache

import msgspec

# THEIRS = OURS: the rest of the line goes with it. THEIRS: why not, and what instead. The longest beginning counts, so
# that a row stands for every verb below it that has none of its own.
TABLE = """
acp client: an editor starts `pal acp` itself; to talk in the terminal: `pal chat`
agent exec: a run without a gateway is `pal agent --local -m TEXT`
agents set-identity: a name, an emoji or a picture stands in the config: `pal config set agents.list`
agents team: agents are made one by one: `pal agents add`; one asks the other with its tools
approvals get = approvals allowlist list
approvals set: rules are added one by one: `pal approvals allowlist add`
approvals grants: what was allowed for good is a rule: `pal approvals allowlist list` and `remove`
approvals pending = approvals list
approvals resolve = approvals answer
exec-approvals = approvals
attach: a running conversation is joined by its key: `pal chat --session KEY`
audit = security audit
automations = cron
backup enable: a job takes one as often as you like: `pal cron add --every 1d --message "run pal backup create"`
backup disable: a job that takes backups is ended with `pal cron rm`
backup git: the whole home is one file: `pal backup create`; a workspace is a git repository by itself
backup sqlite: databases are in the one file that `pal backup create` takes, also while the gateway works
browser: the agent drives its browser itself: ask it with `pal agent -m`; what it may is in docs/browser.md
capability: one thing a model can do is asked for in words: `pal agent -m`; which models there are: `pal models list`
capability model list = models list
capability model providers = models status
capability model run = agent
capability model auth = models auth
capability list = models list
infer = capability
channels dead-letters: a reply that could not be sent is in `pal status` and `pal trace ID`
channels logs = gateway logs
channels resolve: ids of those who wrote here: `pal directory peers --query NAME`, `pal directory groups --query NAME`
clawbot: pairing another machine is `pal qr`
clawbot qr = qr
config file = config path
config patch: values are set one by one: `pal config set KEY VALUE`
config schema = config explain
configure = setup
connect: a remote gateway stands in the config: `pal config set gateway.remote.url`
cron create = cron add
cron delete = cron rm
cron remove = cron rm
cron disable = cron pause
cron enable = cron resume
cron get = cron why
cron show = cron why
cron status = cron list
cron scratch: a job keeps what it needs in its session: `pal sessions show`
daemon = gateway
database: there is one database, and `pal doctor` checks it
devices clear: devices are put out one by one: `pal devices revoke ID`
devices remove = devices revoke
devices rename: a device tells its own name; `pal nodes rename` is for nodes
devices join-code = qr
directory groups members: who is in a group is known to the platform only; who wrote here: `pal directory peers`
directory groups list = directory groups
directory peers list = directory peers
dns: names are not served here; another machine finds the gateway with `pal qr`
docs: the documentation is the folder docs; `pal COMMAND --help` and `pal config explain KEY` tell the most
exec-policy: how commands are held is `pal sandbox explain`, which tools a run gets `pal policy explain exec`
exec-policy show = sandbox explain
file-transfer: what may be read and sent is part of the rules for tools: `pal policy list`
fleet backup: a fleet's state is in PostgreSQL: pg_dump, or `pal store copy` (docs/fleet.md)
fleet create: a gateway joins a fleet by itself: `pal gateway --store URL`
fleet doctor = doctor
fleet list = fleet status
fleet ls = fleet status
fleet logs = gateway logs
fleet restart = gateway restart
fleet restore: a fleet's state is in PostgreSQL: `pal store copy` (docs/fleet.md)
fleet rm: `pal fleet drain NODE` has a node finish and go, `pal fleet evict NODE` takes its work from it
fleet start = gateway start
fleet stop: `pal fleet drain NODE` has a node finish and go
fleet upgrade: gateways of a fleet are updated one after the other (docs/fleet.md)
gateway auth-token: the token is in the file gateway.token of the home; a signed-in page: `pal dashboard`
gateway call: every method has its command: `pal --help`; programs use the WebSocket (docs/gateway.md)
gateway diagnostics export = doctor
gateway diagnostics = doctor
gateway discover: a gateway is not announced in the network; another machine comes in with `pal qr`
gateway health = status
gateway probe = status
gateway restart-handoff: a restart hands over by itself: `pal gateway restart`
gateway run = gateway
gateway stability = status
gateway suspend: `pal gateway stop` stops it; what came in meanwhile is answered after the start
gateway resume = gateway start
gateway usage-cost = usage
health = status
hooks list = plugins list
hooks info = plugins info
hooks check = plugins doctor
hooks enable = plugins enable
hooks disable = plugins disable
hooks: hooks are part of plugins: `pal plugins list`
mcp configure: a server is added with `pal mcp add`, the rest stands in the config: `pal config explain mcp.servers`
mcp doctor = mcp test
mcp probe = mcp test
mcp reload: the gateway reads its config again by itself; `pal mcp test NAME` shows that a server answers
mcp set = mcp add
mcp show: `pal mcp list` shows them all, `pal mcp test NAME` tries one
mcp tools = mcp test
mcp unset = mcp remove
memory forget: memory is in files that you can edit: `pal memory get`; `pal memory undo` takes a change back
memory index: the index follows the files by itself: `pal memory status`
memory promote-explain: where a line of memory came from is `pal memory why`
memory promote: memory is in files that you can edit; what changed is in `pal memory why`
memory rem-backfill: memory is in files that you can edit: `pal memory status`
memory rem-harness: memory is in files that you can edit: `pal memory status`
memory session-backfill: all conversations can be searched already: `pal sessions search`
memory reset: delete the files of the workspace's folder memory; the index follows: `pal memory status`
message ban: members are managed in the chat app; who may write to the agent: `pal pairing revoke`
message broadcast: one chat at a time: `pal message send --to`
message channel: which chats there are: `pal directory groups`
message emoji: emoji are managed in the chat app; `pal message react` uses them
message event: events are made in the chat app; a reminder is `pal cron add`
message kick: members are managed in the chat app; who may write to the agent: `pal pairing revoke`
message member: members are managed in the chat app; who wrote here: `pal directory peers`
message permissions: what a channel can do is `pal channels capabilities`
message pins: pinned messages are listed in the chat app; `pal message pin` pins one
message reactions: reactions are shown in the chat app; `pal message react` makes one
message role: roles are managed in the chat app; who may write to the agent: `pal pairing list`
message search: what was said here is found with `pal sessions search`
message sticker: stickers are sent in the chat app; `pal message send` writes
message thread create = message thread-create
message thread: `pal message thread-create` begins one, `pal message send --thread ID` writes in one
message thread list: threads are listed in the chat app; `pal directory groups` has those that wrote here
message thread reply: `pal message send --to CHAT --thread ID TEXT`
message timeout: members are managed in the chat app; who may write to the agent: `pal pairing revoke`
message voice: voice rooms are not joined; what a channel can do: `pal channels capabilities`
migrate apply = import
migrate plan: what would come over is `pal import openclaw --dry-run` (or hermes, nanobot)
migrate list: `pal import` knows openclaw, hermes and nanobot
migrate = import
models accounts: keys and sign-ins are shown by `pal models status`
models auth add = models add
models auth list = models status
models auth paste-api-key = models add
models auth paste-token = models add
models auth order: the order stands in the config: `pal config explain auth.order`
models auth activate: which key is used first stands in the config: `pal config explain auth.order`
models auth setup-token: keys come with `pal models add PROVIDER`
models auth: keys come with `pal models add PROVIDER`, and `pal models status` shows where each is from
models image-fallbacks: they stand in the config: `pal config set agents.defaults.imageModel`
models set-image: it stands in the config: `pal config set agents.defaults.imageModel`
models refresh = models list
models scan: `pal models list` has what can be used; whether one calls tools: `pal models probe MODEL`
node identity = node status
node restart: the service is made anew with `pal node install`
node start: `pal node install` makes the service and starts it
node stop: `pal node uninstall` stops the service; the node stays paired
nodes camera: what a node can do is asked for with `pal nodes invoke NODE COMMAND`
nodes canvas: pages are drawn by the agent, on the page of the gateway: `pal dashboard`
nodes location: what a node can do is asked for with `pal nodes invoke NODE COMMAND`
nodes notify: what a node can do is asked for with `pal nodes invoke NODE COMMAND`
nodes screen: what a node can do is asked for with `pal nodes invoke NODE COMMAND`
nodes push: nodes are connected, nothing is pushed: `pal nodes list`
nodes pending = nodes list
nodes remove = nodes revoke
nodes status = nodes list
onboard recommendations: what could be set up better is in `pal doctor` and `pal security audit`
onboard = setup
plugins build: a plugin is a Python file and needs no building: `pal plugins test`
plugins init = plugins new
plugins inspect = plugins info
plugins install: a plugin is a folder in the home's folder plugins: docs/plugins.md; then `pal plugins enable`
plugins uninstall: delete its folder; until then `pal plugins disable`
plugins marketplace: there is no marketplace of plugins; skills have one: `pal skills`
plugins pack: a plugin is a folder: copy it, and `pal plugins test` it there
plugins registry = plugins list
plugins reload: the gateway takes it up at its next start: `pal gateway restart`
plugins search: there is no marketplace of plugins; what is here: `pal plugins list`
plugins update: a plugin is a folder: replace it, then `pal plugins doctor`
plugins validate = plugins doctor
promos: nothing is sold here; models come with your own keys: `pal models add`
proxy: what was asked and answered is on tape: `pal record on`, `pal replay`
resume = chat
sandbox list = sandbox explain
sandbox recreate: cells are made anew for every command: `pal sandbox test`
secrets: keys come from the environment, files or a vault: `pal config explain secrets`
secrets audit = security audit
sessions archive: `pal sessions reset` puts a conversation away and begins anew, `pal sessions delete` ends it
sessions compact: `/compact` in the conversation does it: `pal agent -m /compact`
sessions export-trajectory = sessions export
sessions tail = sessions show
skills curator: changes to skills are yours to decide: `pal skills list`
skills library: skills are folders: `pal skills install` and `pal skills list`
skills verify = skills check
skills workshop: a skill is a folder with SKILL.md that you or the agent write: `pal skills check` looks at it
tasks audit = tasks
tasks list = tasks
tasks show: `pal tasks` shows them all, `pal why` and `pal trace ID` tell more of one
tasks maintenance: old ones go by themselves: `pal tasks`
tasks cancel: `/stop` in its conversation stops it: `pal agent -m /stop`
tasks dismiss: `/stop` in its conversation stops it: `pal agent -m /stop`
tasks notify: whoever asked is told when it ends: `pal tasks`
tasks retry: say it again in its conversation: `pal agent -m TEXT`
tasks flow: long work is a job or a sub-agent: `pal cron`, `pal tasks`
telemetry: nothing is sent to anybody; what is logged here is in `pal gateway logs`
terminal = chat
transcripts list = sessions list
transcripts path = sessions path
transcripts show = sessions show
transcripts = sessions
triage = doctor
tui = chat
update cleanup: versions that are here are listed by `pal update --list`; an old one is a folder that may be deleted
update repair: what was begun is finished or taken back by the next `pal update`
update status: what is here and what could be: `pal update --list`, `pal update --check`
update wizard = update
users: people are let in and put out with `pal pairing`, devices with `pal devices`
webhooks gmail: mail that comes in starts the agent: docs/webhooks.md; its keys: `pal config explain hooks.gmail`
webhooks: they stand in the config: `pal config explain hooks`
worker: other machines do work as nodes: `pal node run`
worktrees: the agent makes work trees with git itself; what it changed: `pal changes`
"""


class VerbAnswer(msgspec.Struct, frozen=True):
    """`ours`: the line that does it. Else `why` says what there is instead."""

    ours: tuple[str, ...] = ()
    why: str = ""


@cache
def read_table() -> dict[tuple[str, ...], VerbAnswer]:
    """The rows by their words."""
    rows: dict[tuple[str, ...], VerbAnswer] = {}
    for line in TABLE.strip().splitlines():
        theirs, colon, why = line.partition(": ")
        if colon:
            rows[tuple(theirs.split())] = VerbAnswer(why=why)
        else:
            theirs, _, ours = line.partition(" = ")
            rows[tuple(theirs.split())] = VerbAnswer(tuple(ours.split()))
    return rows


def find_verb_answer(words: list[str]) -> VerbAnswer | None:
    """What becomes of a line of OpenClaw's, the rest of it included; None: no verb of theirs, or one of ours."""
    for count in range(min(len(words), 3), 0, -1):
        row = read_table().get(tuple(words[:count]))
        if row is not None:
            return VerbAnswer((*row.ours, *words[count:])) if row.ours else row
    return None
