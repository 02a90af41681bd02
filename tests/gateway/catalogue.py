"""The methods of OpenClaw 2026.6 by scope, as observed, those of 2026.9 by name, and the tables in docs/gateway.md that
say which we serve and why not the others.

.venv/bin/python tests/gateway/catalogue.py     writes the table anew
"""

from __future__ import annotations

from pathlib import Path

from palinurus.gateway.methods import METHODS
from palinurus.gateway.rpc import ADMIN, APPROVALS, EVENTS, NODE, PAIRING, READ, WRITE
from palinurus.gateway.ws.newer import ABSENT, list_absent, spread_names

FILE = Path(__file__).parents[2] / "docs" / "gateway.md"
BEGIN, END = "<!-- methods: made by tests/gateway/catalogue.py -->", "<!-- end -->"

# {a,b} stands for both.
KNOWN: dict[str, str] = {
    READ: """health diagnostics.stability doctor.memory.{status,dreamDiary,remHarness} logs.tail channels.status status
        usage.status usage.cost tts.{status,providers,personas} config.get config.schema.lookup plugins.uiDescriptors
        talk.catalog talk.config commands.list models.list models.authStatus tools.catalog tools.effective
        tasks.{list,get} environments.{list,status} agents.list agents.files.{list,get} artifacts.{list,get,download}
        skills.{status,search,detail,securityVerdicts,skillCard} skills.proposals.{list,inspect} voicewake.get
        voicewake.routing.get sessions.{list,subscribe,unsubscribe} sessions.messages.{subscribe,unsubscribe}
        sessions.{preview,describe} sessions.compaction.{list,get} last-heartbeat node.{list,describe}
        cron.{get,list,status,runs} gateway.identity.get gateway.restart.preflight system-presence agent.identity.get
        chat.{history,startup,metadata} chat.message.get assistant.media.get sessions.{get,resolve,usage}
        sessions.usage.{timeseries,logs}""",
    WRITE: """doctor.memory.{backfillDreamDiary,resetDreamDiary,resetGroundedShortTerm,repairDreamingArtifacts}
        doctor.memory.dedupeDreamDiary tts.{enable,disable,convert,setProvider,setPersona}
        talk.client.{create,toolCall,steer} talk.session.{create,join,appendAudio,startTurn,endTurn,cancelTurn}
        talk.session.{cancelOutput,submitToolResult,steer,close} talk.speak talk.mode tools.invoke tasks.cancel
        voicewake.set voicewake.routing.set sessions.compaction.branch sessions.{create,send,abort} wake
        node.pending.enqueue node.invoke message.action send agent agent.wait chat.{abort,send} poll sessions.steer
        push.test push.web.{vapidPublicKey,subscribe,unsubscribe,test}""",
    ADMIN: """channels.{start,stop,logout} config.{set,apply,patch,schema} exec.approvals.{get,set}
        exec.approvals.node.{get,set} wizard.{start,next,cancel,status} models.authLogout agents.{create,update,delete}
        agents.files.set skills.upload.{begin,chunk,commit} skills.{install,update}
        skills.proposals.{create,update,revise,requestRevision,apply,reject,quarantine} update.{status,run}
        secrets.{reload,resolve} sessions.compaction.restore sessions.{patch,pluginPatch,cleanup,reset,delete,compact}
        set-heartbeats cron.{add,update,remove,run} gateway.restart.request system-event config.openFile connect
        chat.inject nativeHook.invoke web.login.{start,wait}""",
    APPROVALS: """exec.approval.{get,list,request,waitDecision,resolve}
        plugin.approval.{list,request,waitDecision,resolve}""",
    PAIRING: """node.pair.{request,list,approve,reject,remove,verify} device.pair.{list,approve,reject,remove}
        device.token.{rotate,revoke} node.rename""",
    NODE: """skills.bins node.pluginSurface.refresh node.pending.{drain,pull,ack} node.invoke.result node.event""",
    "dynamic": "plugins.sessionAction",
}


# What 2026.7 to 2026.9 added: names only.
ADDED = """
    agents.workspace.{get,list} approval.{get,history,resolve} attach.{grant,revoke} audit.list
    audit.activity.list audit.run.inspect board.{action,event,get,update} board.data.read board.prompt.authorize
    board.widget.{appView,grant,put} canvas.document.{preview,view} channels.pairing.{approve,dismiss,list}
    chat.toolTitles claws.monitors claws.packages.remove computer.{invoke,status}
    controlUi.{githubDetail,githubPreview,linkPreview,sessionPreview}
    controlUi.sessionPullRequests.{checks,subscribe} conversations.{list,send,turn} conversations.turn.cancel
    cron.scratch.{get,set} desktop.{launch,observe,release} device.pair.{rename,setupCode,setupStatus}
    device.scopes.{requestUpgrade,waitUpgrade} diagnostics.{cpuProfile,heapProfile,lanes}
    environments.{create,destroy,prepare} environments.session.{create,destroy,exec,status}
    exec.approval.grants.{list,revoke} fs.listDir gateway.suspend.{handoff,prepare,resume,status} hooks.status
    mcp.authLogin
    mcp.app.{callTool,listResourceTemplates,listResources,listTools,readResource,updateModelContext,view}
    memory.search mentions.{dismiss,list} migrations.memory.{apply,plan}
    models.{authLogin,authOrderSet,authRefresh,authSetApiKey,probe} node.invoke.progress node.pluginTools.update
    node.runnerInventory.update node.skills.update openclaw.chat openclaw.approval.list openclaw.changes.list
    openclaw.chat.history openclaw.setup.{activate,detect,verify} openclaw.setup.activate.start
    openclaw.setup.auth.start openclaw.setup.prepare.start plugin.surface.refresh
    plugins.{inspect,install,list,refresh,reload,search,setEnabled,uninstall}
    plugins.catalog.{browse,categories,get} plugins.controlUi.{list,reload,report,status}
    plugins.credentials.inspect plugins.skills.read portal.{close,list,open} progressCard.{get,put,refresh}
    projects.{add,list,register,remove,searchRemote} push.web.preferences.{get,set}
    question.{get,list,request,resolve,waitAnswer} secrets.store.{delete,list,set} session.typing
    session.discussion.{info,open} session.members.{add,list,listEvidence,remove} session.publicShare.set
    session.suggestions.{add,list,resolve} session.visibility.set
    sessions.{assignOwner,diff,dispatch,fork,move,patchMany,reclaim,recover,rewind,search,setInvolvement}
    sessions.activitySummary.ensure sessions.branches.{list,switch}
    sessions.catalog.{archive,continue,list,read,startTerminal} sessions.companion.{ask,reset,state}
    sessions.files.{get,list,reveal,set} sessions.github.{confirm,options,publish,status}
    sessions.goal.{clear,update} sessions.groups.{defaults,delete,list,put,rename,update}
    sessions.observer.visibility sessions.providerReview.continue sessions.storage.{run,status}
    sessions.title.prepare sessions.viewers.set skills.curator.{pin,restore,status,unpin}
    skills.library.{activate,import,list,mutate,read,save,upload}
    skills.proposals.{evaluate,historyScan,historyStatus} skills.proposals.events.list skills.workshop.read
    system.info talk.client.{close,transcript} talk.session.acknowledgeMark talk.voice.{complete,get,set}
    taskSuggestions.{accept,create,dismiss,list} tasks.{dismiss,history,retry}
    terminal.{attach,close,input,list,open,resize,upload} themes.{get,import,list,set}
    tools.github.{configure,status} tools.github.authorize.{cancel,poll,start}
    transcripts.{export,get,list,status,summarize} tts.speak ui.command update.{hold,report}
    update.runs.{get,list}
    users.{linkAuthProfile,linkChannelIdentity,linkEmail,list,listAuthLinks,listChannelIdentities}
    users.{listModelAccounts,mentionable,selectModelAccount,self,setAvatar,setDisplayName,setRole}
    users.{unlinkAuthProfile,unlinkChannelIdentity} users.authConnect.{answer,cancel,catalog,start,status}
    users.github.{disconnect,status} users.github.authorize.{cancel,poll,start} users.prefs.{get,set}
    webSearch.{status,test} worker.desktop.{launch,observe} worktrees.{branches,create,gc,list,remove,restore}
"""


def known() -> dict[str, str]:
    """Method -> scope, of all there are."""
    return {name: scope for scope, words in KNOWN.items() for name in spread_names(words)}


def table() -> str:
    """What stands between the marks of the page."""
    every, added = known(), spread_names(ADDED)
    served = {"connect", *(name for name in METHODS if name in every)}
    newer = [name for name in added if name in METHODS]
    lines = [
        f"{len(served)} of the {len(every)} methods of OpenClaw 2026.6 are served, and {len(newer)} of the {len(added)}"
        " that versions up to 2026.9 added.",
        "The others are refused with a sentence (below).",
        "",
        "| scope | served |",
        "|---|---|",
    ]
    scopes = [*KNOWN, *sorted({METHODS[name].scope or "connected" for name in newer} - set(KNOWN))]
    for scope in scopes:
        names = [name for name in served if every[name] == scope] + [n for n in newer if METHODS[n].scope == scope]
        if names:
            lines.append(f"| {scope} | {' '.join(f'`{name}`' for name in sorted(names))} |")
    lines += ["", "| refused, and what there is instead | methods |", "|---|---|"]
    for why in dict.fromkeys(why for _, why, _ in ABSENT):
        lines.append(f"| {why} | {' '.join(name for name, (_, own) in list_absent().items() if own == why)} |")
    ours = sorted(name for name in METHODS if name not in every and name not in newer)
    lines += ["", "Ours: " + ", ".join(f"`{name}` ({METHODS[name].scope})" for name in ours) + "."]
    lines += ["", "Events: " + ", ".join(f"`{name}`" for name in EVENTS) + "."]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it should be."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text()))
