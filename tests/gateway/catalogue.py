"""The methods of OpenClaw 2026.6 by scope, as observed, and the table in docs/gateway.md that says which we serve.

.venv/bin/python tests/gateway/catalogue.py     writes the table anew
"""

from __future__ import annotations

from pathlib import Path

from palinurus.gateway.methods import METHODS
from palinurus.gateway.rpc import ADMIN, APPROVALS, EVENTS, NODE, PAIRING, READ, WRITE

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


def spread(words: str) -> list[str]:
    """The names, one by one."""
    found = []
    for word in words.split():
        head, brace, rest = word.partition("{")
        found += [head + name for name in rest.rstrip("}").split(",")] if brace else [word]
    return found


def known() -> dict[str, str]:
    """Method -> scope, of all there are."""
    return {name: scope for scope, words in KNOWN.items() for name in spread(words)}


def table() -> str:
    """What stands between the marks of the page."""
    every = known()
    served = {"connect", *(name for name in METHODS if name in every)}
    lines = [
        f"{len(served)} of the {len(every)} methods of OpenClaw 2026.6 are served.",
        "",
        "| scope | served | not |",
    ]
    lines.append("|---|---|---|")
    for scope in KNOWN:
        names = sorted(name for name, wanted in every.items() if wanted == scope)
        have = [f"`{name}`" for name in names if name in served]
        lack = [name for name in names if name not in served]
        lines.append(f"| {scope} | {' '.join(have) or '-'} | {' '.join(lack) or '-'} |")
    ours = sorted(name for name in METHODS if name not in every)
    lines += ["", "Ours: " + ", ".join(f"`{name}` ({METHODS[name].scope})" for name in ours) + "."]
    lines += ["", "Events: " + ", ".join(f"`{name}`" for name in EVENTS) + "."]
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it should be."""
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text()))
