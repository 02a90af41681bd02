"""`exec` with host=node: a command on another machine.

A node that holds its commands in a sandbox of its own is judged like a command inside ours, every other like one
outside; after content from outside a person is always asked, since what that machine may reach is not ours to close.
The call waits to the end: nothing goes on in the background there.
"""

from __future__ import annotations

from typing import Any

from palinurus.config.sections import approvals
from palinurus.core.policy import card, exec, networking, shell
from palinurus.core.policy.audience import is_owners_turn
from palinurus.core.policy.nodes import choose_runner
from palinurus.core.policy.taint import is_from_outside, is_reason_to_ask
from palinurus.core.types.approval import ApprovalDecision
from palinurus.core.types.node import RUN, NodeAnswer, NodeOrder, NodesPort, NodeView
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.errors import BadRequest, NotFound
from palinurus.tools.commands.environ import explain_refused_variable
from palinurus.tools.commands.exec import TAIL, ExecArguments
from palinurus.tools.taint import make_approval_request

LONGEST = 3600.0  # seconds; a command without a limit would hold its turn for ever
GRACE = 10.0  # seconds a node gets to tell that time was up
TOO_LONG = "not run: the command needs an approval and is too long to be shown whole. Send a shorter one."


async def run_on_node(nodes: NodesPort, ctx: ToolContext, args: ExecArguments, name: str = "") -> ToolOutput:
    """Judge, ask if need be, send, wait. `name`: the node where the call names none. Raises ToolFailure."""
    if not is_owners_turn(ctx.inbound):
        raise ToolFailure("host=node: other machines are for the owner only; leave host and node out")
    if ctx.settings.cell.kind == "docker" and ctx.settings.rules.host != "node":
        raise ToolFailure("host=node: this session is sandboxed, and exec host is not node here")
    for word in ("background", "pty", "elevated"):
        if getattr(args, word):
            raise ToolFailure(f"{word} is not possible with host=node")
    for variable, value in args.env.items():
        if reason := explain_refused_variable(variable, value):
            raise ToolFailure(reason)
    try:
        node = choose_runner(nodes.views(), args.node or name)
    except (NotFound, BadRequest) as error:
        raise ToolFailure(f"host=node: {error.message}") from None
    said = await authorize_remote(ctx, args, node)
    limit = min(ctx.settings.exec_timeout if args.timeout is None else args.timeout, LONGEST) or LONGEST
    params: dict[str, Any] = {
        "command": ["/bin/sh", "-c", args.command],
        "rawCommand": args.command,
        "timeoutMs": int(limit * 1000),
        "agentId": ctx.agent,
        "sessionKey": ctx.session,
        **({"cwd": args.workdir} if args.workdir else {}),
        **({"env": args.env} if args.env else {}),
    }
    key = f"{ctx.session}:{ctx.item}:{ctx.call}"
    began = ctx.now()
    answer = await nodes.invoke(NodeOrder(node.id, RUN, params, key, timeout=limit + GRACE, approved=said))
    return _show(answer, node, args, ctx.now() - began)


async def authorize_remote(ctx: ToolContext, args: ExecArguments, node: NodeView) -> ApprovalDecision | None:
    """What a person said, if one was asked. Raises ToolFailure when the command may not run."""
    rules, place = ctx.settings.rules, "contained" if node.contained else "host"
    words = approvals.read_approvals(rules.file).words(ctx.agent)
    kind: exec.ExecPlace = "contained" if place == "contained" else "host"
    mode = exec.resolve_exec_mode(rules, kind, host=words, security=args.security, ask=args.ask)
    odd = shell.find_deceptive_text(args.command) or shell.find_deceptive_text(args.workdir)
    tainted = is_reason_to_ask(ctx.settings.taint, "exec", ctx.taint)
    verdict = exec.decide_exec(mode, kind, False, odd=odd, tainted=tainted)
    if verdict.action == "refuse":
        raise ToolFailure(f"not run: {verdict.why}. Do not look for a way around it; tell the person.")
    if verdict.action == "run" and not (tainted and is_from_outside(ctx.taint)):
        return None
    why = verdict.why if verdict.action == "ask" else "content from outside was read, and another machine would run it"
    ask = make_approval_request(
        ctx,
        TOO_LONG,
        kind="exec",
        tool="exec",
        title=f"run a command on node {node.label}",
        command=args.command,
        argv=("/bin/sh", "-c", args.command),
        cwd=args.workdir,
        host="node",
        security=mode.security,
        ask=mode.ask,
        env=card.write_variables(args.env),
        binding={"node": node.id, "env": repr(sorted(args.env.items()))},
        why=why,
        warning=f"contains {odd}" if odd else "",
        allowed=("allow-once", "deny"),  # what a name means there is not known here: no rule could be kept
        facts=(("node", f"{node.label} ({node.platform}, {node.id[:12]})"), ("held by", _held(node))),
    )
    told = await ctx.ask(ask)
    if told.decision == "deny":
        raise ToolFailure(f"not run: the command was denied by {told.by or 'the owner'}. Ask the person what to do.")
    if not told.allowed:
        raise ToolFailure(f"not run: it needs an approval, and {told.by or 'nobody answered'}.")
    return told.decision


def _held(node: NodeView) -> str:
    return "a sandbox of that machine" if node.contained else "nothing: it runs as that machine's user"


def _show(answer: NodeAnswer, node: NodeView, args: ExecArguments, ms: int) -> ToolOutput:
    if not answer.ok:
        status = "unknown" if answer.unknown else "failed"
        return make_output(f"node {node.label}: {answer.message}", {"status": status, "node": node.id}, error=True)
    told = answer.payload if isinstance(answer.payload, dict) else {}
    code, late = told.get("exitCode"), told.get("timedOut") is True
    parts = [str(told[name]).rstrip() for name in ("stdout", "stderr", "error") if told.get(name)]
    text = "\n".join(part for part in parts if part) or "(no output)"
    if late:
        text += "\n\nCommand timed out there and was ended."
    elif code:
        text += f"\n\n(exit code {code})"
    details = {
        "status": "failed" if late else "completed",
        "exitCode": code,
        "durationMs": ms,
        "aggregated": text[-TAIL:],
        "cwd": told.get("cwd") or args.workdir or None,
        "node": node.id,
    }
    made = make_output(text, details, error=late)
    return ToolOutput(made.content, details, late, source=networking.classify_output(args.command))
