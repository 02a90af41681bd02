"""Think, act, observe. Knows the order of things and when they must be on disk; knows no config, no vendor,
no file. What it needs of the world comes through `RunPorts`; what it does is seen only in its events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from palinurus.agent import hookcalls
from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.agent.think import Thinker
from palinurus.agent.toolcalls import CallProvenance, RepeatDetector, ToolBatch
from palinurus.core.policy import taint
from palinurus.core.stream.tags import split_reasoning
from palinurus.core.structured import TRIES, check_answer, write_correction
from palinurus.core.types.card import EVIDENCE
from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, RunEndReason, RunEvent
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.crashpoints import pass_crashpoint
from palinurus.late import load_part

ANSWERS = 10  # of one run, one for each time somebody wrote meanwhile; then people get to read them


async def loop(plan: RunPlan, ports: RunPorts) -> AsyncGenerator[RunEvent, None]:
    """Run one turn to its end. The last event is always AgentEnd; nothing is raised but failures of the store."""
    run, thinker = _Run(plan, ports), Thinker(plan, ports)
    tagged = bool(plan.model.compat.get("taggedReasoning"))
    start = (plan.id, str(plan.route.key), str(plan.model.ref), plan.started)
    yield AgentStart(*start, reasoning=plan.show.reasoning, tagged=tagged, level=plan.choices[0].level.level)
    for message in plan.opening:
        run.add(message)
        if isinstance(message, UserMessage):
            yield MessageStart(message)
        yield MessageEnd(message)
    for turn in range(plan.limits.max_turns):
        steered = ports.steering.take()
        for message, item in steered:
            run.add(message, absorb=(item,))
            yield MessageStart(message)
            yield MessageEnd(message)
        if turn or steered:  # what the model is about to see is on disk; the opening message is, in the inbox
            await ports.record.flush()
        async for event in run.room(first=turn == 0):
            yield event
        async for event in thinker.think(tuple(run.messages), run.taint):
            yield event
        reply = run.heard(thinker)
        if (again := run.correct(reply) or run.doubt(reply)) is not None:
            yield MessageStart(again)
            yield MessageEnd(again)
            continue
        if run.over(reply):
            break
        if not reply.calls:
            continue  # a steered message waits: it is part of this run
        if any(plan.effect(call.name) != "pure" for call in reply.calls):
            pass_crashpoint("intent.before")
            await ports.record.flush()  # the intent is on disk before anything happens
            pass_crashpoint("intent.after")
        acting = ToolBatch(plan.restrict_to(thinker.choice), ports, run.repeats, run.seen())
        async with aclosing(acting.act(reply.calls)) as events:
            async for event in events:
                yield event
        for result in hookcalls.filter_results(ports.hooks, plan, acting.results):
            run.add(result)
            yield MessageEnd(result)
        await ports.record.flush()
        pass_crashpoint("result.after")
        if run.acted(acting.results):
            break
    ports.steering.close()
    yield run.ended((*thinker.notices, *(ports.compactor.notices if ports.compactor else ()), *run.doubts))


class _Run:
    """The state of one loop: the conversation so far, and why it ended."""

    def __init__(self, plan: RunPlan, ports: RunPorts) -> None:
        self._plan = plan
        self._ports = ports
        self.messages: list[Message] = list(plan.history)
        self.repeats = RepeatDetector(plan.limits.loops)
        self._new: list[Message] = list(plan.earlier)
        self._usage = TokenUsage()
        self._taint = plan.taint
        self._answers = 0
        self._end: RunEndReason = "max_turns"
        self._failure: ModelFailure | None = None
        self._misfits = 0  # answers that did not have the form that was asked for
        self.doubts: tuple[str, ...] = ()  # what the person is told of claims that nothing bears out

    @property
    def taint(self) -> tuple[str, ...]:
        """What of the conversation came from outside."""
        return self._taint

    def seen(self) -> CallProvenance:
        """What the model's next calls follow from."""
        ports = self._ports
        return CallProvenance(tuple(self.messages), self._taint, ports.marks, ports.intents, confirm=ports.confirm)

    def add(self, message: Message, *, absorb: tuple[str, ...] = (), called: bool = False) -> None:
        self._taint = taint.join_taint(self._taint, taint.collect_taint((message,)))
        self.messages.append(message)
        self._new.append(message)
        self._ports.record.add(message, absorb=absorb, called=called)

    async def room(self, *, first: bool) -> AsyncIterator[RunEvent]:
        """Before a request: shorten the conversation if it is due. Messages that are steered in meanwhile wait."""
        compactor = self._ports.compactor
        reason = compactor.due(self.messages, first=first) if compactor is not None else ""
        if compactor is None or not reason:
            return
        async for event in compactor.compact(tuple(self.messages), reason):
            yield event
        if compactor.messages is not None:
            self.messages = list(compactor.messages)

    def heard(self, thinker: Thinker) -> AssistantMessage:
        """Take the model's answer. An answer that failed before a word of it came is not part of the history."""
        reply = thinker.reply
        self._usage = self._usage + thinker.usage
        self._failure = thinker.failure
        if thinker.messages is not None:
            self.messages = list(thinker.messages)
        if reply.content:
            self.add(reply, called=True)
        return reply

    def correct(self, reply: AssistantMessage) -> UserMessage | None:
        """What the model is told if this would be the end and does not have the form that was asked for; it is part
        of the conversation, and on disk with the answer it is about. None: nothing, or it was told often enough."""
        form = self._plan.inbound.options.answer
        if form is None or reply.failed or reply.calls or reply.stopReason == "length" or self._ports.steering.waiting:
            return None
        problem = check_answer(reply.text, form).problem
        if not problem:
            return None
        self._misfits += 1
        if self._misfits > TRIES:
            self._failure = ModelFailure(
                "malformed", f"no answer of {self._misfits} had the form that was asked for: {problem}"
            )
            return None
        said = UserMessage(write_correction(problem), self._ports.clock.now(), taint.OWN)
        self.add(said)
        return said

    def doubt(self, reply: AssistantMessage) -> UserMessage | None:
        """Hold what the answer claims against what happened, if this would be the end. With `ask` the model is told
        once in a turn what does not fit; it is on disk with the answer, so a turn taken up again does not ask twice."""
        wanted, form = self._plan.limits.evidence, self._plan.inbound.options.answer
        ends = not (reply.failed or reply.calls or reply.stopReason == "length" or self._ports.steering.waiting)
        if wanted == "off" or form is not None or not ends:
            return None
        evidence = load_part("evidence")
        claims = evidence.check_claims(split_reasoning(reply.text).visible, self.messages)
        if not claims:
            return None
        asked = wanted == "ask" and not evidence.was_doubted(self.messages)
        self._ports.record.step(EVIDENCE, evidence.write_finding(claims, asked=asked))
        if not asked:
            self.doubts = evidence.format_claims(claims)
            return None
        said = UserMessage(evidence.write_doubt(claims), self._ports.clock.now(), taint.OWN)
        self.add(said)
        return said

    def over(self, reply: AssistantMessage) -> bool:
        """Is this the end? If so, nobody may steer from here on."""
        self._answers += not reply.calls
        if reply.failed:
            self._end = self._stopped() if reply.stopReason == "aborted" else "error"
        elif self._misfits > TRIES:
            self._end = "error"
        elif reply.calls or (self._ports.steering.waiting and self._answers < ANSWERS):
            return False
        else:
            self._end = "length" if reply.stopReason == "length" else "stop"
        self._ports.steering.close()
        return True

    def acted(self, results: Sequence[ToolResult]) -> bool:
        """Have the tools, or somebody meanwhile, ended the run?"""
        if self._ports.abort.reason is not None:
            self._end = self._stopped()
        elif self.repeats.stuck:
            self._end = "tool_loop"
            self._failure = ModelFailure("refused", self.repeats.stuck)
        elif results and all(result.terminate for result in results) and not self._ports.steering.waiting:
            self._end = "stop"
        else:
            return False
        return True

    def _stopped(self) -> RunEndReason:
        """Somebody stopped the run; the failure says who."""
        reason = self._ports.abort.reason or "stopped"
        self._failure = ModelFailure("aborted", reason)
        return "timeout" if reason == "timeout" else "aborted"

    def ended(self, notices: tuple[str, ...]) -> AgentEnd:
        if self._end == "max_turns":
            self._failure = ModelFailure(
                "refused", f"stopped after {self._plan.limits.max_turns} model calls in one turn"
            )
        return AgentEnd(
            tuple(self._new), self._end, self._usage, self._failure, ended=self._ports.clock.now(), notices=notices
        )
