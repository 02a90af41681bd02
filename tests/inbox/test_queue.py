"""What becomes of a message whose session is busy: the rules, and the proof that none is lost or doubled."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from palinurus.agent.mailbox import Mailbox
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.messages import UserMessage
from palinurus.inbox import queue, running
from palinurus.inbox.policy import QueuePolicy
from palinurus.inbox.queue import (
    IDLE,
    ArrivalEvent,
    BeginEffect,
    ClaimEvent,
    HoldEffect,
    QueuePlace,
    QueueStopEvent,
    SessionQueue,
    SteerEffect,
    SweepEffect,
    step_queue,
)
from support import inbound

HERE = running.get_place(inbound())
THERE = running.get_place(inbound(target=Target("fake", "other")))
STRANGER = running.get_place(inbound(sender=Sender("human", allowed=True)))


def busy(*rows: queue.QueueRow) -> SessionQueue:
    return SessionQueue("run", HERE, True, rows)


def arrive(
    state: SessionQueue, ident: str, mode: Any = "steer", place: QueuePlace = HERE, now: float = 0.0, **rules: Any
) -> Any:
    policy = QueuePolicy(mode, **rules)
    row = replace(running.make_row(ident, inbound(f"text of {ident}"), policy, now), place=place)
    return step_queue(state, ArrivalEvent(row, policy))


def ids(state: SessionQueue, kind: str) -> list[str]:
    return [r.id for r in state.rows if r.state == kind]


@pytest.mark.seed(377, 380)
def test_a_message_in_the_same_chat_is_steered_by_default() -> None:
    assert QueuePolicy().mode == "steer"
    state, effects = arrive(busy(), "m")
    assert effects == (SteerEffect("m"),) and ids(state, "handed") == ["m"]


@pytest.mark.parametrize("place", [THERE, STRANGER, replace(HERE, push=False)])
def test_an_answer_comes_back_to_where_it_was_asked_and_with_the_rights_of_who_asked(place: QueuePlace) -> None:
    for mode in ("steer", "interrupt"):
        state, effects = arrive(busy(), "m", mode, place)
        assert effects == () and ids(state, "waiting") == ["m"]


def test_nothing_is_steered_into_a_run_that_looks_no_more() -> None:
    state, _ = step_queue(busy(), queue.MailboxCloseEvent())
    state, effects = arrive(state, "m")
    assert effects == () and ids(state, "waiting") == ["m"]


@pytest.mark.seed(381)
@pytest.mark.parametrize("mode", ["followup", "collect"])
def test_followup_and_collect_wait_for_the_end_of_the_run(mode: Any) -> None:
    state, effects = arrive(busy(), "m", mode)
    assert effects == () and ids(state, "waiting") == ["m"]
    _, effects = step_queue(state, queue.RunEndEvent("run"))
    assert isinstance(effects[0], HoldEffect)


def test_collected_messages_make_one_turn_after_a_quiet_moment() -> None:
    state = busy()
    for n in range(3):
        state, _ = arrive(state, f"m{n}", "collect", now=float(n), debounce=0.5)
    state, effects = step_queue(state, queue.RunEndEvent("run"))
    assert effects == (HoldEffect(2.5),)  # half a second after the newest
    state, effects = arrive(state, "m3", "collect", now=2.4, debounce=0.5)
    assert effects == (HoldEffect(2.9),)  # one more: the quiet moment begins again
    state, effects = step_queue(state, ClaimEvent("m0", HERE))
    assert effects == (BeginEffect(("m1", "m2", "m3")),) and ids(state, "handed") == ["m1", "m2", "m3"]


def test_a_full_batch_does_not_wait_for_quiet() -> None:
    state = IDLE
    for n in range(3):
        state, effects = arrive(state, f"m{n}", "collect", now=9.0, cap=3)
    assert effects == (HoldEffect(0.0),)


def test_only_neighbours_from_one_place_are_put_together() -> None:
    state = busy()
    for ident, place in (("a", HERE), ("b", HERE), ("c", THERE), ("d", HERE)):
        state, _ = arrive(state, ident, "collect", place)
    state, _ = step_queue(state, queue.RunEndEvent("run"))
    state, effects = step_queue(state, ClaimEvent("a", HERE))
    assert effects == (BeginEffect(("b",)),)
    state, effects = step_queue(step_queue(state, queue.AbsorbEvent(("b",)))[0], queue.RunEndEvent("a"))
    assert step_queue(state, ClaimEvent("c", THERE))[1] == (BeginEffect(),)


def test_messages_that_wait_to_be_steered_go_along_and_none_overtakes_another() -> None:
    state = busy()
    for ident, place in (("a", THERE), ("b", THERE), ("c", HERE), ("d", THERE)):
        state, _ = arrive(state, ident, "steer", place)
    state, _ = step_queue(state, queue.RunEndEvent("run"))
    state, effects = step_queue(state, ClaimEvent("a", THERE))
    assert effects == (BeginEffect(("b",)),) and ids(state, "waiting") == ["c", "d"]
    state, effects = arrive(state, "e", "steer", THERE)  # d came first
    assert effects == () and ids(state, "waiting") == ["c", "d", "e"]
    state, _ = step_queue(step_queue(state, queue.AbsorbEvent(("b",)))[0], queue.RunEndEvent("a"))
    state, effects = step_queue(state, ClaimEvent("c", HERE))
    assert effects == (BeginEffect(),)
    state, _ = step_queue(state, queue.RunEndEvent("c"))
    assert step_queue(state, ClaimEvent("d", THERE))[1] == (BeginEffect(("e",)),)


def test_a_message_that_was_tried_before_is_not_put_together_again() -> None:
    state, _ = arrive(IDLE, "a", "collect")
    state, _ = arrive(state, "b", "collect")
    assert step_queue(state, ClaimEvent("a", HERE, alone=True))[1] == (BeginEffect(),)


def test_what_waits_changes_places_and_what_is_not_named_stays() -> None:
    state = busy()
    for ident in "abcd":
        state, _ = arrive(state, ident, "followup")
    state, effects = step_queue(state, queue.MoveEvent(("d", "gone", "b", "a")))
    assert effects == () and ids(state, "waiting") == ["d", "b", "c", "a"]
    state, effects = step_queue(state, queue.RunEndEvent("run"))
    assert effects == (HoldEffect(0.0),)
    assert step_queue(state, ClaimEvent("d", HERE))[1] == (BeginEffect(),)


def test_what_was_to_wait_for_the_end_can_be_read_by_the_run() -> None:
    state, _ = arrive(busy(), "a", "followup")
    state, _ = arrive(state, "b", "collect")
    state, effects = step_queue(state, queue.HurryEvent("b"))
    assert effects == (SteerEffect("b"),) and ids(state, "handed") == ["b"] and ids(state, "waiting") == ["a"]
    assert step_queue(state, queue.HurryEvent("b")) == (state, ())  # once
    assert step_queue(state, queue.HurryEvent("gone")) == (state, ())
    closed, _ = step_queue(state, queue.MailboxCloseEvent())
    assert step_queue(closed, queue.HurryEvent("a")) == (closed, ())
    other, _ = arrive(busy(), "c", "followup", THERE)
    assert step_queue(other, queue.HurryEvent("c")) == (other, ())


@pytest.mark.seed(382)
def test_interrupt_aborts_the_run_and_only_the_newest_runs() -> None:
    state, _ = arrive(busy(), "old")
    state, effects = arrive(state, "new", "interrupt")
    assert effects == (queue.UnsteerEffect("old"), queue.AbortEffect("interrupt"), SweepEffect())
    assert ids(state, "doomed") == ["old"] and ids(state, "waiting") == ["new"] and not state.open
    verdict = state.rows[0].verdict
    assert verdict is not None and verdict.outcome == "aborted" and "interrupted" in verdict.note
    state, effects = step_queue(state, queue.RunEndEvent("run"))
    assert effects == (SweepEffect(),)
    state, effects = step_queue(state, queue.VerdictEvent("old"))
    assert effects == (HoldEffect(0.0),)


def test_what_the_loop_has_read_cannot_be_taken_back() -> None:
    state, _ = arrive(busy(), "m")
    state, _ = step_queue(state, queue.TakeEvent(("m",)))
    for event in (QueueStopEvent(), QueueStopEvent(("m",))):
        assert ids(step_queue(state, event)[0], "taken") == ["m"]
    assert ids(arrive(state, "x", "interrupt")[0], "taken") == ["m"]


@pytest.mark.parametrize(
    ("drop", "doomed", "tell", "dropped"),
    [("old", "m0", True, 0), ("new", "m2", True, 0), ("summarize", "m0", False, 1)],
)
def test_one_message_too_many(drop: Any, doomed: str, tell: bool, dropped: int) -> None:
    state = busy()
    for n in range(3):
        state, _ = arrive(state, f"m{n}", "followup", cap=2, drop=drop)
    assert ids(state, "doomed") == [doomed] and queue.count_live(state) == 2
    verdict = next(r.verdict for r in state.rows if r.id == doomed)
    assert verdict == queue.QueueVerdict("refused", "not answered: more than 2 messages were waiting", tell)
    assert state.dropped == dropped
    assert state.lines == (("text of m0",) if dropped else ())


def test_the_next_run_is_told_of_what_was_dropped_once() -> None:
    state = busy()
    for n in range(3):
        state, _ = arrive(state, f"m{n}", "followup", cap=2)
    state, effects = step_queue(step_queue(state, queue.RunEndEvent("run"))[0], queue.VerdictEvent("m0"))
    state, effects = step_queue(state, ClaimEvent("m1", HERE))
    assert effects == (BeginEffect((), 1, ("text of m0",)),) and (state.dropped, state.lines) == (0, ())


def test_a_steered_message_tells_the_run_of_what_was_dropped() -> None:
    state = busy()
    for n in range(3):
        state, effects = arrive(state, f"m{n}", cap=2)
    assert effects == (queue.UnsteerEffect("m0"), SteerEffect("m2", 1, ("text of m0",)), SweepEffect())
    assert state.dropped == 0


def test_what_a_run_was_not_told_the_next_one_is() -> None:
    state = replace(busy(), dropped=3, lines=("x",))
    state, effects = arrive(state, "m", cap=1)
    assert effects == (SteerEffect("m", 3, ("x",)),) and state.dropped == 0
    state, effects = arrive(state, "n", cap=1)  # m goes, and with it what it carried
    assert effects == (queue.UnsteerEffect("m"), SteerEffect("n", 4, ("text of m",)), SweepEffect())
    closed, _ = step_queue(state, queue.MailboxCloseEvent())
    assert (closed.dropped, closed.lines) == (4, ("text of m",))
    ended, _ = step_queue(step_queue(closed, queue.RunEndEvent("run"))[0], queue.VerdictEvent("m"))
    assert step_queue(ended, ClaimEvent("n", HERE))[1] == (BeginEffect((), 4, ("text of m",)),)
    read, _ = step_queue(step_queue(state, queue.TakeEvent(("n",)))[0], queue.AbsorbEvent(("n",)))
    assert step_queue(read, queue.RunEndEvent("run"))[0].dropped == 0


def test_a_stop_clears_what_waits_and_what_comes_after_it_runs() -> None:
    state, _ = arrive(busy(), "handed")
    state, _ = arrive(state, "waiting", "followup")
    state, effects = step_queue(state, QueueStopEvent())
    assert effects == (queue.UnsteerEffect("handed"),) and ids(state, "doomed") == ["handed", "waiting"]
    state, effects = arrive(state, "after")
    assert effects == (SweepEffect(),) and ids(state, "waiting") == ["after"]  # the run is ending: not steered into it


def test_a_summary_is_one_short_line() -> None:
    assert running.shorten_line("a\n b\t c ") == "a b c"
    assert len(running.shorten_line("x" * 10_000)) == 160 and running.shorten_line("x" * 161).endswith("…")


class World:
    """A store, a mailbox and a run around the pure part, in one session, without time: what the dispatcher does."""

    def __init__(self) -> None:
        self.disk: dict[str, str] = {}  # queued, running, absorbed, done; in the order of arrival
        self.runs: dict[str, list[str]] = {}  # message -> what its run was given, in order, as it is on disk
        self.ends: dict[str, str] = {}  # message -> outcome
        self.queue = IDLE
        self.run = ""
        self.mailbox = Mailbox()
        self.read: list[str] = []  # taken by the loop, not on disk
        self.acting = False  # tools or a compaction are going on: the loop does not look
        self.settled = False
        self.refusing = ""
        self.awake = self.sweep = False
        self.count = 0

    def step(self, event: queue.QueueEvent) -> tuple[queue.Effect, ...]:
        self.queue, effects = step_queue(self.queue, event)
        for effect in effects:
            if isinstance(effect, SteerEffect) and not self.mailbox.push(UserMessage(""), effect.id):
                self.step(queue.MailboxCloseEvent())
            elif isinstance(effect, queue.UnsteerEffect):
                self.mailbox.drop(effect.id)
            elif isinstance(effect, queue.AbortEffect):
                self.abort()
            elif isinstance(effect, SweepEffect):
                self.sweep = True
            elif isinstance(effect, HoldEffect):
                self.awake = True
        return effects

    def send(self, mode: Any, place: QueuePlace, cap: int, drop: Any) -> None:
        ident = f"m{self.count:03}"
        self.count += 1
        if not any(state in ("queued", "running") for state in self.disk.values()):
            self.disk[ident] = "running"
            self.begin(ident, place)
            return
        self.disk[ident] = "queued"
        before = queue.count_live(self.queue)
        policy = QueuePolicy(mode, 0.5, cap, drop)
        self.step(ArrivalEvent(replace(running.make_row(ident, inbound(ident), policy, 0.0), place=place), policy))
        assert queue.count_live(self.queue) <= max(cap, before)

    def claim(self) -> None:
        """The pump or the sweeper: the oldest that waits, if the session is free on disk."""
        self.awake = self.sweep = False
        if "running" in self.disk.values():
            return
        ident = next((i for i, state in self.disk.items() if state == "queued"), None)
        if ident is not None:
            self.disk[ident] = "running"
            known = next(r for r in self.queue.rows if r.id == ident)
            self.begin(ident, known.place)

    def begin(self, ident: str, place: QueuePlace) -> None:
        (effect,) = self.step(ClaimEvent(ident, place))
        if isinstance(effect, queue.SettleEffect):
            self.refusing = ident
            return
        assert isinstance(effect, BeginEffect)
        self.run, self.settled, self.acting, self.read = ident, False, False, []
        self.mailbox = Mailbox(lambda ids: None if self.run != ident else self.took(ids))
        self.runs.setdefault(ident, [])
        for extra in effect.extra:
            self.mailbox.push(UserMessage(""), extra)

    def took(self, taken: tuple[str, ...]) -> None:
        self.step(queue.TakeEvent(taken))

    def refuse(self) -> None:
        ident, self.refusing = self.refusing, ""
        verdict = next(r.verdict for r in self.queue.rows if r.id == ident)
        assert verdict is not None and verdict.note
        self.disk[ident], self.ends[ident] = "done", verdict.outcome
        self.step(queue.VerdictEvent(ident))

    def poll(self) -> None:
        self.read += [ident for _, ident in self.mailbox.take()]

    def move(self, chance: random.Random) -> None:
        """Some that wait take each other's places; the dispatcher hears of it at once."""
        waits = [ident for ident, state in self.disk.items() if state == "queued"]
        moved = iter(chance.sample(waits, len(waits)))
        self.disk = {(ident if state != "queued" else next(moved)): state for ident, state in self.disk.items()}
        self.step(queue.MoveEvent(tuple(ident for ident, state in self.disk.items() if state == "queued")))

    def flush(self) -> None:
        """What was read is on disk as part of the run."""
        self.runs[self.run] += self.read
        for ident in self.read:
            assert self.disk[ident] == "queued", f"{ident} is {self.disk[ident]} and was taken into {self.run}"
            self.disk[ident] = "absorbed"
        taken, self.read = tuple(self.read), []
        self.step(queue.AbsorbEvent(taken))

    def abort(self) -> None:
        self.mailbox.close()
        self.step(queue.MailboxCloseEvent())

    def stop(self) -> None:
        self.step(QueueStopEvent())
        if self.run and not self.settled:
            self.abort()

    def settle(self, outcome: str) -> None:
        """The outcome is on disk, the dispatcher does not know yet. What was read but not written is not the run's."""
        self.mailbox.close()
        self.read, self.settled = [], True
        self.disk[self.run], self.ends[self.run] = "done", outcome

    def finish(self) -> None:
        ended, self.run = self.run, ""
        self.step(queue.RunEndEvent(ended))
        self.awake = True

    def crash(self) -> None:
        self.queue, self.run, self.refusing, self.read = IDLE, "", "", []
        self.mailbox, self.awake, self.sweep = Mailbox(), False, False
        for ident, state in self.disk.items():
            if state == "running":
                self.disk[ident] = "queued"
            if self.disk[ident] == "queued":
                self.step(
                    queue.RestoreEvent(
                        replace(running.make_row(ident, inbound(ident), QueuePolicy("steer"), 0.0), place=HERE)
                    )
                )

    def check(self) -> None:
        rows = self.queue.rows
        waiting = [i for i, state in self.disk.items() if state == "queued" or i == self.refusing]
        assert [r.id for r in rows] == waiting
        boxed = {ident for _, ident in self.mailbox._items}
        if not self.settled or not self.run:
            assert boxed == set(ids(self.queue, "handed")) or not self.run
            assert set(self.read) == set(ids(self.queue, "taken"))
        given = [ident for run in self.runs.values() for ident in run]
        assert len(given) == len(set(given)), "a message is part of two runs"
        assert not set(given) & {i for i in self.ends if i not in self.runs}, "a refused message is part of a run"

    def drain(self) -> None:
        """Only what the effects ask for: if nobody is woken, a message would wait for ever."""
        for _ in range(20 * self.count + 20):
            if self.refusing:
                self.refuse()
            elif self.run:
                if not self.settled:
                    self.settle("answered")
                self.finish()
            elif self.awake or self.sweep:
                self.claim()
            else:
                break
            self.check()
        left = {i: state for i, state in self.disk.items() if state not in ("done", "absorbed")}
        assert not left, f"still waiting: {left}"
        for ident, state in self.disk.items():
            hosts = [run for run, given in self.runs.items() if ident in given]
            assert len(hosts) == (state == "absorbed")
            assert (ident in self.ends) == (state == "done")
            own = ident in self.runs
            assert own + len(hosts) + (not own and ident in self.ends) == 1


MODES = ("steer", "steer", "followup", "collect", "interrupt")
DROPS = ("old", "new", "summarize")
PLACES = (HERE, HERE, HERE, THERE, STRANGER)


class Machine(RuleBasedStateMachine):
    """Every order in which things can happen to one session."""

    @initialize()
    def begin(self) -> None:
        self.world = World()

    @rule(
        mode=st.sampled_from(MODES),
        place=st.sampled_from(PLACES),
        cap=st.sampled_from((1, 3, 20)),
        drop=st.sampled_from(DROPS),
    )
    def send(self, mode: Any, place: QueuePlace, cap: int, drop: Any) -> None:
        self.world.send(mode, place, cap, drop)

    @precondition(lambda self: self.world.awake or self.world.sweep)
    @rule()
    def claim(self) -> None:
        self.world.claim()

    @precondition(lambda self: self.world.queue.rows)
    @rule(chance=st.randoms(use_true_random=False))
    def move(self, chance: random.Random) -> None:
        self.world.move(chance)

    @precondition(lambda self: self.world.queue.rows)
    @rule(data=st.data())
    def hurry(self, data: Any) -> None:
        self.world.step(queue.HurryEvent(data.draw(st.sampled_from(self.world.queue.rows)).id))

    @precondition(lambda self: self.world.refusing)
    @rule()
    def refuse(self) -> None:
        self.world.refuse()

    @precondition(lambda self: self.world.run and not self.world.settled and not self.world.acting)
    @rule()
    def poll(self) -> None:
        self.world.poll()

    @precondition(lambda self: self.world.read)
    @rule()
    def flush(self) -> None:
        self.world.flush()

    @precondition(lambda self: self.world.run and not self.world.settled and not self.world.read)
    @rule()
    def tools_or_compaction(self) -> None:
        self.world.acting = not self.world.acting

    @precondition(lambda self: self.world.run and not self.world.settled)
    @rule(outcome=st.sampled_from(("answered", "failed")))
    def settle(self, outcome: str) -> None:
        self.world.settle(outcome)

    @precondition(lambda self: self.world.run and self.world.settled)
    @rule()
    def finish(self) -> None:
        self.world.finish()

    @rule()
    def stop(self) -> None:
        self.world.stop()

    @precondition(lambda self: self.world.queue.rows)
    @rule(at=st.integers(0, 30))
    def stop_one(self, at: int) -> None:
        rows = self.world.queue.rows
        self.world.step(QueueStopEvent((rows[at % len(rows)].id,)))

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


Machine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMachine = Machine.TestCase


def wander(seed: int, steps: int) -> None:
    """The same rules, chosen by a cheaper die: many more interleavings in the same time."""
    dice, world = random.Random(seed), World()
    try:
        for _ in range(steps):
            moves: list[Any] = [
                lambda: world.send(dice.choice(MODES), dice.choice(PLACES), dice.choice((1, 3, 20)), dice.choice(DROPS))
            ] * 3
            if world.awake or world.sweep:
                moves += [world.claim] * 2
            if world.refusing:
                moves += [world.refuse] * 2
            if world.read:
                moves += [world.flush] * 3
            if world.run and world.settled:
                moves += [world.finish] * 3
            elif world.run:
                moves += [lambda: world.settle("answered"), world.stop]
                moves += [] if world.acting or world.read else [world.poll] * 2
                moves += [] if world.read else [lambda: setattr(world, "acting", not world.acting)]
            if world.queue.rows:
                moves.append(lambda: world.step(QueueStopEvent((dice.choice(world.queue.rows).id,))))
            if dice.random() < 0.05:
                moves = [world.crash]
            dice.choice(moves)()
            world.check()
        world.drain()
    except AssertionError as exc:
        raise AssertionError(f"seed {seed}: {exc}") from exc


def test_no_order_of_events_loses_or_doubles_a_message() -> None:
    for seed in range(2_000):
        wander(seed, 25)


@pytest.mark.torture
def test_a_hundred_thousand_orders() -> None:
    for seed in range(10_000, 110_000):
        wander(seed, 25)


@pytest.mark.torture
class TestMachineAtLength(Machine.TestCase):
    settings = settings(
        max_examples=10_000, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
    )
