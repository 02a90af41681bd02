"""What clients of OpenClaw 2026.6 to 2026.9 ask for that is not done here, and what newer ones say that older ones did
not. Names only. Loaded when something unknown is asked for, never before.

A method of ABSENT is refused with its reason, which clients show; its scope is the one that OpenClaw asks for. A field
of HINTS narrows or enriches an answer: leaving it out gives a right answer, so it is.
"""

from __future__ import annotations

from palinurus.core.types.caller import ADMIN, APPROVALS, NODE, READ, WRITE

# (scope, why not and what instead, names; {a,b} stands for both)
ABSENT: tuple[tuple[str, str, str], ...] = (
    (READ, "nothing dreams here: learn.list, `pal learn`", "doctor.memory.{dreamDiary,remHarness}"),
    (WRITE, "nothing dreams here: learn.list, `pal learn`",
     "doctor.memory.{backfillDreamDiary,resetDreamDiary,resetGroundedShortTerm,repairDreamingArtifacts,dedupeDreamDiary}"),
    (WRITE, "there is no live voice line here: voice notes in chat.send, and talk.speak (docs/speech.md)",
     """talk.client.{create,toolCall,steer,transcript,close} talk.session.{create,join,appendAudio,startTurn,endTurn}
     talk.session.{cancelTurn,cancelOutput,submitToolResult,steer,close,acknowledgeMark}
     talk.voice.{get,set,complete}"""),
    (WRITE, "voices have no personas here: tts.setProvider chooses who speaks", "tts.setPersona"),
    (WRITE, "notices go to browsers (push.web.subscribe), not through Apple's or Google's servers", "push.test"),
    (ADMIN, "secrets are read again when the config is saved or the gateway restarts", "secrets.reload"),
    (READ, "pictures of an answer are fetched over HTTP (/__openclaw__/assistant-media)", "assistant.media.get"),
    (READ, "skills.status names the file of every skill", "skills.skillCard"),
    (ADMIN, "secrets are used where the config names them and are handed to no client", "secrets.resolve"),
    (ADMIN, "keys stand in the environment or the config", "secrets.store.{list,set,delete}"),
    (ADMIN, "the gateway opens no editor on its machine: config.get names the file", "config.openFile"),
    (ADMIN, "other programs' hooks are not relayed (docs/webhooks.md)", "nativeHook.invoke"),
    (ADMIN, "plugins keep no state in sessions here (docs/plugins.md)", "sessions.pluginPatch"),
    (WRITE, "plugins bring no buttons for sessions here (docs/plugins.md)", "plugins.sessionAction"),
    (NODE, "plugins bring no surfaces of nodes here", "node.{pluginSurface.refresh,pluginTools.update}"),
    (NODE, "a node brings commands, no skills of its own: skills are the gateway's", "node.skills.update"),
    (NODE, "a node runs commands one at a time and reports their end", "node.{runnerInventory.update,invoke.progress}"),
    (ADMIN, "an agent proposes no skills: learn.list",
     """skills.proposals.{create,update,revise,requestRevision,apply,reject,quarantine,historyScan,evaluate}
     skills.curator.{pin,unpin,restore}"""),
    (READ, "an agent proposes no skills: learn.list",
     "skills.proposals.{inspect,historyStatus,events.list} skills.workshop.read"),
    (ADMIN, "skills are installed with `pal skills install`", "skills.upload.{begin,chunk,commit}"),
    (WRITE, "skills are installed with `pal skills install`", "skills.library.{save,mutate,activate,import,upload}"),
    (READ, "skills.status has every skill", "skills.library.read plugins.skills.read"),
    (READ, "what runs changed is changes.list", "sessions.{diff,files.list,files.get}"),
    (READ, "webhooks are the config's (hooks), what they started is in sessions.list", "hooks.status"),
    (READ, "what a task said is tasks.log", "tasks.history"),
    (ADMIN, "a setup code is good once: device.pair.list shows who came with it", "device.pair.setupStatus"),
    (ADMIN, "the program is set up with `pal setup` or on its page (setup.status, setup.apply)",
     """openclaw.setup.{detect,activate,activate.start,auth.start,prepare.start,verify} openclaw.chat
     openclaw.chat.history openclaw.changes.list migrations.memory.{plan,apply}"""),
    (ADMIN, "there is no terminal through the gateway: the exec tool and nodes run commands, behind approvals",
     "terminal.{open,input,resize,close,attach,list,upload} sessions.catalog.startTerminal attach.{grant,revoke}"),
    (ADMIN, "no screens are shown, a node takes pictures",
     "desktop.{observe,launch,release} worker.desktop.{observe,launch}"),
    (READ, "no screens are driven, there is a browser", "computer.status"),
    (WRITE, "no screens are driven, there is a browser", "computer.invoke"),
    (ADMIN, "commands run here, in a sandbox, or on a node",
     """environments.{create,destroy,prepare,session.create,session.destroy,session.exec}
     claws.{monitors,packages.remove}"""),
    (READ, "commands run here, in a sandbox, or on a node", "environments.session.status portal.list"),
    (WRITE, "commands run here, in a sandbox, or on a node",
     "portal.{open,close} sessions.{dispatch,move,reclaim,recover}"),
    (ADMIN, "there is one owner (pairing.list, device.pair.list)",
     "users.{linkEmail,setRole,linkAuthProfile,linkChannelIdentity,unlinkChannelIdentity,listChannelIdentities}"),
    (READ, "there is one owner (pairing.list, device.pair.list)",
     """users.{list,self,listAuthLinks,listModelAccounts,mentionable,prefs.get} mentions.{list,dismiss}
     session.members.{list,listEvidence} session.suggestions.list sessions.setInvolvement"""),
    (WRITE, "there is one owner (pairing.list, device.pair.list)",
     """users.{setDisplayName,setAvatar,selectModelAccount,unlinkAuthProfile,prefs.set}
     users.authConnect.{start,answer,status,cancel,catalog} session.members.{add,remove} sessions.assignOwner
     session.suggestions.{add,resolve} session.visibility.set session.typing"""),
    (WRITE, "a conversation is shown to others by a link (shares.create)", "session.publicShare.set"),
    (READ, "GitHub is reached with tools, not by the gateway",
     """users.github.{status,authorize.start,authorize.poll,authorize.cancel,disconnect} tools.github.status
     sessions.github.{options,status} controlUi.{githubPreview,githubDetail,linkPreview,sessionPreview}
     controlUi.sessionPullRequests.{subscribe,checks} projects.searchRemote"""),
    (WRITE, "GitHub is reached with tools, not by the gateway",
     "sessions.github.{confirm,publish} sessions.providerReview.continue"),
    (ADMIN, "GitHub is reached with tools, not by the gateway",
     "tools.github.{configure,authorize.start,authorize.poll,authorize.cancel}"),
    (READ, "a session works in one folder, `pal` inside it", "worktrees.list projects.list fs.listDir"),
    (WRITE, "a session works in one folder, `pal` inside it", "worktrees.{branches,create} projects.add"),
    (ADMIN, "a session works in one folder, `pal` inside it",
     "worktrees.{remove,restore,gc} projects.{register,remove} sessions.files.{set,reveal}"),
    (READ, "what agents show is a session's canvas (canvas.get)",
     """board.{get,widget.appView,prompt.authorize,data.read} canvas.document.{view,preview} plugin.surface.refresh
     progressCard.get sessions.companion.{ask,state} sessions.observer.visibility session.discussion.info"""),
    (WRITE, "what agents show is a session's canvas (canvas.get)",
     """board.{update,widget.put,event,action} progressCard.{put,refresh} sessions.companion.reset
     session.discussion.open ui.command sessions.activitySummary.ensure"""),
    (APPROVALS, "what agents show is a session's canvas (canvas.get)", "board.widget.grant"),
    (READ, "MCP servers bring tools here, no pages",
     "mcp.app.{view,listTools,listResources,listResourceTemplates,readResource}"),
    (WRITE, "MCP servers bring tools here, no pages", "mcp.app.{callTool,updateModelContext}"),
    (READ, "meetings are not recorded here", "transcripts.{list,get,export,status}"),
    (WRITE, "meetings are not recorded here", "transcripts.summarize"),
    (READ, "the page of this program has its own looks", "themes.{list,get}"),
    (WRITE, "the page of this program has its own looks", "themes.{set,import}"),
    (READ, "plugins are Python packages (`pal plugins`)",
     "plugins.{search,inspect,controlUi.list,controlUi.report} plugins.catalog.{browse,categories,get}"),
    (ADMIN, "plugins are Python packages (`pal plugins`)",
     """plugins.{install,setEnabled,uninstall,refresh,reload,credentials.inspect,controlUi.reload,controlUi.status}"""),
    (READ, "other programs' talks come with `pal import`", "sessions.catalog.{list,read}"),
    (WRITE, "other programs' talks come with `pal import`", "sessions.catalog.{continue,archive}"),
    (ADMIN, "other people's agents are reached through channels or MCP", "conversations.{list,send,turn,turn.cancel}"),
    (READ, "there are logs.tail, runs.trace and /metrics",
     "audit.{list,activity.list,run.inspect} diagnostics.{lanes,stability}"),
    (ADMIN, "there are logs.tail, runs.trace and /metrics", "diagnostics.{cpuProfile,heapProfile}"),
    (ADMIN, "`pal update` tries a new version and can go back", "update.{run,hold,runs.get,runs.list,report}"),
    (ADMIN, "a fleet's gateway is drained (fleet.drain)", "gateway.suspend.{prepare,resume,handoff}"),
    (READ, "a fleet's gateway is drained (fleet.drain)", "gateway.suspend.status"),
    (ADMIN, "`pal models add` writes keys, models.login.start signs in",
     "models.{probe,authOrderSet,authRefresh,authLogin,authSetApiKey}"),
    (ADMIN, "signing in to a tool server is mcp.login.start here", "mcp.authLogin"),
    (READ, "tools.catalog says which search tool there is", "webSearch.status"),
    (ADMIN, "tools.invoke with web_search tries it", "webSearch.test"),
    (ADMIN, "the state is looked after by `pal doctor` and `pal store`", "sessions.storage.{status,run}"),
    (ADMIN, "a job's notes are files of its agent's workspace", "cron.scratch.{get,set}"),
    (WRITE, "a device has the scopes it was approved with", "device.scopes.{requestUpgrade,waitUpgrade}"),
    (APPROVALS, "rules that were allowed for good are in exec.approvals.get", "exec.approval.grants.{list,revoke}"),
    (APPROVALS, "exec.approval.get and plugin.approval.list know what is asked", "approval.{get,resolve,history}"),
    (WRITE, "agents ask in the conversation", "question.{request,waitAnswer,resolve,get}"),
    (READ, "an agent suggests no tasks by itself", "taskSuggestions.list"),
    (WRITE, "an agent suggests no tasks by itself", "taskSuggestions.{create,dismiss} tasks.{retry,dismiss}"),
    (ADMIN, "an agent suggests no tasks by itself", "taskSuggestions.accept"),
    (WRITE, "there are no folders of sessions",
     "sessions.groups.{defaults,put,rename,update,delete} sessions.patchMany"),
    (WRITE, "a session has no goal beside what is said in it", "sessions.goal.{update,clear}"),
    (WRITE, "titles come from the first words", "sessions.title.prepare chat.toolTitles"),
    (READ, "who looks at a session is not told to others", "sessions.viewers.set"),
    (READ, "notices are of one kind: an answer while nobody looks", "push.web.preferences.get"),
    (WRITE, "notices are of one kind: an answer while nobody looks", "push.web.preferences.set"),
)  # fmt: skip

# Fields of newer clients that may be left out of a call.
HINTS: dict[str, str] = {
    "chat.startup": "maxBytes",
    "chat.history": "maxBytes",
    "chat.metadata": "sessionKey",
    "chat.abort": "preserveSideRuns",
    "chat.send": "mentions workContext intent fastAutoOnSeconds replyToId expectedSessionRoutingContract",
    "commands.list": "sessionKey",
    "cron.list": "includeDeliveryPreviews compact trigger",
    "cron.runs": "agentId deliveryStatuses",
    "models.list": "agentId sessionKey includeDetails includeProviderCapabilities includeDefaultModels preparedOnly"
    " refresh",
    "sessions.abort": "clearQueued",
    "sessions.create": "succeedsParent titleSource visibility",
    "sessions.describe": "agentId",
    "sessions.list": "sortBy includeActivitySummary includePeople ownerFirst requireLastInteraction excludeSystem",
    "sessions.messages.subscribe": "includeApprovals",  # who may approve is told of approvals anyway
    "sessions.send": "mentions",
    "sessions.usage": "agentScope creatorKey groupBy includeHistorical timeZone includeContextWeight",
    "skills.status": "sessionKey",
    "talk.catalog": "provider model",
    "tasks.list": "sortBy",
    "environments.list": "runtimeId projection includeDesktopSetup",
    "node.invoke": "sessionKey turnSourceChannel turnSourceTo turnSourceAccountId turnSourceThreadId",
}


def spread_names(words: str) -> list[str]:
    """`a.{b,c}` as a.b and a.c."""
    found = []
    for word in words.split():
        head, brace, rest = word.partition("{")
        found += [head + name for name in rest.rstrip("}").split(",")] if brace else [word]
    return found


def find_absent(name: str) -> tuple[str, str]:
    """The scope that a method which is not served asks for, and the words that refuse it. By their beginning OpenClaw's
    page knows that something is not offered, as it does by `unknown method`."""
    if name == "connect":
        return ADMIN, "connect is only valid as the first request"
    found = list_absent().get(name)
    return (found[0], f"method not supported: {name}: {found[1]}") if found else (ADMIN, f"unknown method: {name}")


def list_absent() -> dict[str, tuple[str, str]]:
    """Method -> its scope and why it is not served."""
    return {name: (scope, why) for scope, why, words in ABSENT for name in spread_names(words)}
