"""Asks a model for a summary: chunk by chunk, each again up to three times, within one time limit. Writes nothing.

Every way this can fail is a value: whoever asked goes on with what it had before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from palinurus.abort import Abort, Aborted
from palinurus.clock import Clock
from palinurus.config.sections.context import CompactionSettings
from palinurus.core.history import compaction
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.core.types.model import Model, ModelFailure, ModelRequest, ModelSpec, Prompt, StreamDone, StreamFailed
from palinurus.core.types.usage import TokenUsage

RETRIES = 3
FIRST_WAIT, LONGEST_WAIT = 0.5, 5.0
CHUNK = 0.4  # of the summariser's window is read at once
CHUNKS = 16  # as many are read within the time; of more, the first and the last
LEFT_OUT = "[{count} parts of the conversation are left out here]\n\n"
OVERHEAD = 4_096  # tokens: our words, the record so far
CHARS = 4  # to a token
FINAL = frozenset(("aborted", "budget", "config", "auth", "billing", "not_found"))  # asking the same model is vain


class SummaryClient(msgspec.Struct, frozen=True):
    """Who is asked: the models in order, for whose account, and how it is stopped."""

    model: Model
    clock: Clock
    abort: Abort
    models: tuple[ModelSpec, ...]
    owner: str
    spent: list[AssistantMessage]  # every answer that cost something is added


class SummaryJob(msgspec.Struct, frozen=True):
    """What is to be summarised: the history, the beginning of a turn that is cut in two, the record so far."""

    history: Sequence[Message]
    prefix: Sequence[Message] = ()
    before: str = ""
    wishes: tuple[str, ...] = ()
    tokens: int = 4_000  # of an answer


class HistorySummary(msgspec.Struct, frozen=True):
    text: str
    turn: str = ""


async def summarize(
    job: SummaryJob, asker: SummaryClient, settings: CompactionSettings
) -> HistorySummary | ModelFailure:
    """The summary, or why there is none. Raises nothing but CancelledError."""
    try:
        async with asyncio.timeout(settings.timeout):
            return await _summarize(job, asker, settings)
    except TimeoutError:
        return ModelFailure("timeout", f"the summary was not ready after {settings.timeout:g} s")
    except Aborted as exc:
        return ModelFailure("aborted", exc.reason)


async def _summarize(
    job: SummaryJob, asker: SummaryClient, settings: CompactionSettings
) -> HistorySummary | ModelFailure:
    window = asker.models[0].context_window
    room = max(2_000, int((window * CHUNK - min(OVERHEAD, window // 8)) * CHARS))
    record = job.before
    chunks = await asyncio.to_thread(compaction.split_into_texts, job.history, room)
    if (count := len(chunks) - CHUNKS) > 0:
        chunks = [chunks[0], LEFT_OUT.format(count=count) + chunks[count + 1], *chunks[count + 2 :]]
    for chunk in chunks:
        made = await _asked(chunk, record, job, asker, settings=settings, prefix=False)
        if isinstance(made, ModelFailure):
            return made
        record = made
    turn = ""
    for chunk in compaction.split_into_texts(job.prefix, room)[-1:]:
        made = await _asked(chunk, "", job, asker, settings=settings, prefix=True)
        if isinstance(made, ModelFailure):
            return made
        turn = made
    return HistorySummary(record, turn)


async def _asked(
    chunk: str, before: str, job: SummaryJob, asker: SummaryClient, settings: CompactionSettings, *, prefix: bool
) -> str | ModelFailure:
    """One record, however many tries it takes. The last one is another model's, where there is one."""
    why, wrong, at = "", 0, 0
    failure = ModelFailure("malformed", "no summary")
    for attempt in range(RETRIES + 1):
        if attempt:
            pause = min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT)
            await asker.abort.wait(asker.clock.sleep(pause))
        if attempt == RETRIES or failure.kind in FINAL:
            at = min(at + 1, len(asker.models) - 1)
        words = compaction.write_summary_prompt(chunk, before=before, prefix=prefix, more=job.wishes, why=why)
        said = await ask_model_once(
            _request(asker.models[at], words, job.tokens, asker.owner), asker.model, asker.abort, asker.spent
        )
        if isinstance(said, ModelFailure):
            failure = said
            if said.kind in ("aborted", "budget") or (said.kind in FINAL and at == len(asker.models) - 1):
                return said
            if said.kind == "overflow":  # the next try reads half of it
                chunk = f"{chunk[: len(chunk) // 4]}\n[…]\n{chunk[-len(chunk) // 4 :]}"
            continue
        why = compaction.find_summary_problem(said.text, chunk + before)
        if not why:
            return said.text.strip()
        failure = ModelFailure("malformed", f"the summary could not be used: {why}")
        wrong += 1
        if wrong > settings.retries:
            break
    return failure


async def ask_model_once(
    request: ModelRequest, model: Model, abort: Abort, spent: list[AssistantMessage]
) -> AssistantMessage | ModelFailure:
    """One answer nobody sees, or the failure. What it cost is noted."""
    end: StreamDone | StreamFailed | None = None
    stream: Any = model.stream(request, abort)
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, StreamDone | StreamFailed):
                end = event
    if end is None:
        return ModelFailure("cut", "the stream had no end")
    if end.message.usage != TokenUsage():
        spent.append(end.message)
    return end.failure if isinstance(end, StreamFailed) else end.message


def _request(model: ModelSpec, words: str, tokens: int, owner: str) -> ModelRequest:
    most = min(tokens, model.max_tokens)
    return ModelRequest(model, Prompt(compaction.SUMMARY_SYSTEM), (UserMessage(words),), max_tokens=most, owner=owner)
