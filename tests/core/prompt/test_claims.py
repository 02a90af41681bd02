"""No sentence without the part behind it: every sentence a prompt can contain stands in this table with what must be
there for it to be true, and prompts of all kinds of facts are read against it. A new sentence needs a new row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from core.prompt.kit import EVERY, full, tools
from palinurus.agent.plan.prompt import find_documentation
from palinurus.cli.main import COMMANDS
from palinurus.core.policy.looking import explain_refused_look
from palinurus.core.prompt.facts import (
    DocsFact,
    FileFact,
    PromptFacts,
    PromptOptions,
    SandboxFact,
    SkillFact,
    has_tool,
    write_voice_hint,
)
from palinurus.core.prompt.render import render_prompt
from palinurus.inbox.commands.table import NAMES as CHAT_COMMANDS
from palinurus.tools.program.gateway import ACTIONS

Claim = Callable[[PromptFacts], object]


def always(facts: PromptFacts) -> object:
    """Conduct, and what Palinurus does for every run."""
    return True


def have(*names: str) -> Claim:
    return lambda facts: all(has_tool(facts, name) for name in names)


def quiet(facts: PromptFacts) -> object:
    return facts.kind != "direct" and not facts.message_only and facts.knobs.silent_group == "allow"


# How a sentence begins -> what it says is there. The first row that fits counts.
CLAIMS: dict[str, Claim] = {
    # the tools of the run
    "The structured tool definitions decide": lambda f: f.tools,
    "Names are case-sensitive": lambda f: f.tools,
    "Notes about tools in workspace files": lambda f: f.tools,
    "No tool list was handed over": lambda f: not f.tools,
    "Use only tools that are defined": lambda f: not f.tools,
    "For anything later (a reminder": have("cron"),
    "Do not wait with sleep loops": have("cron", "exec", "process"),
    "`exec` is for commands that start now": have("exec", "process"),
    "Use `process` to read its log": have("exec", "process"),
    "The end of a background command wakes you": lambda f: f.wake and has_tool(f, "exec"),
    "A larger or separable task goes": have("sessions_spawn"),
    "Its result is pushed to you": have("sessions_spawn"),
    "`update_plan` is for work": have("update_plan"),
    "Keep exactly one step in_progress": have("update_plan"),
    "Do not call `subagents` or `sessions_list` in a loop": have("subagents", "sessions_list"),
    "Do not call `subagents` in a loop": have("subagents"),
    "Do not call `sessions_list` in a loop": have("sessions_list"),
    "## Sub-Agent Delegation": have("sessions_spawn"),
    "You are the coordinator": have("sessions_spawn"),
    "Reply yourself when a direct answer": have("sessions_spawn"),
    "Tell the person what you started": have("sessions_spawn"),
    # skills
    "## Skills": lambda f: f.skills,
    "Before you reply, scan": lambda f: f.skills,
    "Exactly one clearly fits: read its SKILL.md at <location> with the `read`": have("read"),
    "Exactly one clearly fits: read its SKILL.md at <location> with the `exec`": have("exec"),
    "Several fit": lambda f: f.skills,
    "None clearly fits": lambda f: f.skills,
    "Never read more than one": lambda f: f.skills,
    "Relative paths in a skill": lambda f: f.skills,
    "7 more skills are installed": lambda f: f.skills_left == 7,
    "When a way of doing something proved": have("skill_workshop"),
    # the program itself
    "Prefer the `gateway` tool": have("gateway"),
    "Update Palinurus (`gateway` action update.run)": lambda f: f.updates and has_tool(f, "gateway"),
    "Updates are installed by the person": lambda f: not f.updates,
    "Do not change the configuration or update": have("gateway"),
    "config.schema.lookup shows": have("gateway"),
    "config.patch changes": have("gateway"),
    "config.apply replaces": have("gateway"),
    "The tool refuses to rewrite": have("gateway"),
    "After a restart, tell": have("gateway"),
    "`pal` in your own commands (`exec`) is answered": lambda f: has_tool(f, "exec") and f.inside == "look",
    "Changes are made with your tools": lambda f: f.inside == "look",
    "`pal` in your own commands (`exec`) acts": lambda f: has_tool(f, "exec") and f.inside == "all",
    "`pal` in your own commands (`exec`) cannot": lambda f: has_tool(f, "exec") and not f.inside,
    "When something is wrong, run `pal status` yourself": have("exec"),
    "For one setting with its meaning and limits: `gateway`": have("gateway"),
    "For one setting with its meaning and limits: `pal": lambda f: not has_tool(f, "gateway"),
    "For how Palinurus behaves": lambda f: f.docs.local or f.docs.site or f.docs.mirror,
    "For the wider picture": lambda f: f.docs.settings,
    "Palinurus docs on this machine": lambda f: f.docs.local,
    "Palinurus docs: ": lambda f: f.docs.site,
    "The same docs online": lambda f: f.docs.local and (f.docs.mirror or f.docs.site),
    "Mirror of the docs": lambda f: f.docs.mirror,
    "Source: ": lambda f: f.docs.source or f.docs.repository,
    "Community: ": lambda f: f.docs.community,
    "Find skills: ": lambda f: f.docs.hub,
    # memory, models, time
    "## Memory Recall": lambda f: has_tool(f, "memory_search") or has_tool(f, "memory_get"),
    "If you are still unsure afterwards": lambda f: has_tool(f, "memory_search") or has_tool(f, "memory_get"),
    "Cite what you found": lambda f: f.knobs.citations == "on",
    "Do not mention paths or lines": lambda f: f.knobs.citations == "off",
    "In a direct chat cite": lambda f: f.knobs.citations == "auto",
    "## Model Aliases": lambda f: f.knobs.aliases,
    "Prefer an alias": lambda f: f.knobs.aliases,
    "zippy: ": lambda f: ("zippy", "fake/mini") in f.knobs.aliases,
    "When you need the current date": have("session_status"),
    "This prompt holds no clock": lambda f: not has_tool(f, "session_status"),
    "Time zone: ": lambda f: f.timezone,
    # where it works
    "Commands and file tools run in the sandbox": lambda f: f.sandbox,
    "## Sandbox": lambda f: f.sandbox,
    "Tools run in a sandbox": lambda f: f.sandbox,
    "Sub-agents you start stay in it": lambda f: f.sandbox and has_tool(f, "sessions_spawn"),
    "Working directory inside": lambda f: f.sandbox,
    "Agent workspace: access": lambda f: f.sandbox,
    "Browser of the sandbox": lambda f: f.sandbox and f.sandbox.browser,
    "Elevated exec is available": lambda f: f.sandbox and f.sandbox.elevated,
    "Use it only when asked or when": lambda f: f.sandbox and f.sandbox.elevated,
    "Elevated exec is not available": lambda f: f.sandbox and not f.sandbox.elevated,
    "Allowlisted: ": lambda f: f.knobs.owners,
    "They may give commands": lambda f: f.knobs.owners,
    # files
    "This workspace is new": lambda f: f.pending,
    "Follow it before normal work": lambda f: f.pending,
    "Do not pretend it is done": lambda f: f.pending,
    "Shortened below: ": lambda f: any(file.truncated for file in f.files),
    "The files themselves are whole": lambda f: any(file.truncated for file in f.files),
    "Palinurus loads these files": lambda f: f.files,
    "No workspace file is included": lambda f: not f.files,
    "These workspace files are part": lambda f: f.files,
    "SOUL.md is who you are": lambda f: any(file.name == "SOUL.md" for file in f.files),
    "These files change often": lambda f: any(file.name == "HEARTBEAT.md" for file in f.files),
    # the chat
    "Only what you send with the `message` tool": lambda f: f.message_only,
    "Tags in your own text have no effect": lambda f: f.message_only,
    "Your text is not posted": lambda f: f.message_only,
    "Your reply in this session goes by itself": lambda f: not f.message_only,
    "Palinurus understands these in a reply": lambda f: not f.message_only,
    "All reasoning goes inside": lambda f: f.tagged,
    "After it put what the person shall read": lambda f: f.tagged,
    "When you have nothing to add": quiet,
    "It must be the whole answer": quiet,
    "If `message` already delivered": lambda f: quiet(f) and has_tool(f, "message"),
    "This chat renders Markdown": lambda f: f.channel == "webchat",
    "Pages are not shown inline": lambda f: f.channel == "webchat",
    "To write to another session": have("sessions_send"),
    "Never send any with `exec`": have("exec"),
    "Use `message` for messages": have("message"),
    "Inline buttons work here": lambda f: f.buttons and has_tool(f, "message"),
    "When a tool result asks for approval": lambda f: has_tool(f, "exec") and not f.approvals,
    "Each approval counts once": lambda f: has_tool(f, "exec") and not f.approvals,
    "This channel asks for approvals itself": lambda f: f.approvals,
    "Give a `/approve` command only": lambda f: f.approvals,
    "## Voice (TTS)": lambda f: f.knobs.voice,
    "Every reply is read aloud": lambda f: f.knobs.voice,
    "Write it to be heard": lambda f: f.knobs.voice,
    "Keep what is spoken under": lambda f: f.knobs.voice,
    "You can react with an emoji": lambda f: f.reactions and has_tool(f, "message"),
    "Do so ": lambda f: f.reactions and has_tool(f, "message"),
    "Heartbeat prompt: ": lambda f: f.knobs.heartbeat,
    "When a message is this prompt": lambda f: f.knobs.heartbeat,
    "If something does, write": lambda f: f.knobs.heartbeat,
    "Reasoning: ": always,
    # conduct, and what holds for every run
    **dict.fromkeys(
        (
            "You are a personal assistant", "Call routine", "Say a short word", "Calls that do not depend",
            "Where a tool exists", "A request that can be acted on", "Go on until", "A weak or empty",
            "What can change", "Before you finish", "You pursue no goals", "Human oversight",
            "When instructions conflict",
            "Do not talk anyone", "Text found in files", "People use Palinurus", "what runs, and what",
            "settings: `pal", "the gateway itself", "Starting, stopping", "Your working directory is",
            "Relative paths start",
            "Treat it as the only", "Where it is a git", "`MEDIA:", "`[[audio_as_voice]]`", "`[[reply_to_current]]`",
            "`[[reply_to:", "White space inside", "Whether they show", "Palinurus does the delivery",
            "Texts of sub-agents", "Runtime: ",
        ),
        always,
    ),
}  # fmt: skip
RECALL = "Before you answer anything about earlier work"
HEADS = re.compile(r"#+ [A-Z][\w &()-]+")
DATA = re.compile(r"ZZ .*|## \w+\.md|</?[a-z_]+>|<(name|description|location)>.*|\w+: ZZ .*")


def split_sentences(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        for piece in re.split(r"(?<=[.;])\s+(?=[A-Z`])", line.strip().removeprefix("- ")):
            if piece and not DATA.fullmatch(piece):
                yield piece


TOOLS = st.lists(st.sampled_from(EVERY), unique=True).map(lambda found: tools(*found))
FILES = st.lists(st.sampled_from(("SOUL.md", "AGENTS.md", "HEARTBEAT.md")), unique=True)
KNOBS = st.builds(
    PromptOptions,
    owners=st.sampled_from([(), ("+1",)]),
    aliases=st.sampled_from([(), (("zippy", "fake/mini"),)]),
    citations=st.sampled_from(["auto", "on", "off"]),
    delegation=st.sampled_from(["suggest", "prefer"]),
    voice=st.sampled_from(["", write_voice_hint("always", 1500)]),
    heartbeat=st.sampled_from(["", "ZZ look"]),
    silent_group=st.sampled_from(["allow", "disallow"]),
)
DOCS = st.sampled_from(
    [
        DocsFact(),
        DocsFact(local="/X/d", source="/X/s", settings=("/X/d/config.md",), mirror="https://m"),
        DocsFact(site="https://s", mirror="https://m", repository="https://r", community="https://c", hub="https://h"),
    ]
)
FACTS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["full", "minimal"]),
        "tools": TOOLS.map(lambda found: tuple(type(t)(t.name, f"ZZ {t.name}") for t in found)),
        "files": st.tuples(FILES, st.booleans()).map(
            lambda given: tuple(FileFact(name, "ZZ text", truncated=given[1]) for name in given[0])
        ),
        "skills": st.sampled_from([(), (SkillFact("s", "ZZ d", "/s"),)]),
        "skills_left": st.sampled_from([0, 7]),
        "docs": DOCS,
        "sandbox": st.sampled_from([None, SandboxFact("/w"), SandboxFact("/w", elevated=True, browser="http://b")]),
        "knobs": KNOBS,
        "channel": st.sampled_from(["webchat", "telegram", ""]),
        "kind": st.sampled_from(["direct", "group"]),
        "reactions": st.sampled_from(["", "minimal", "extensive"]),
        "inside": st.sampled_from(["", "look", "all"]),
        "timezone": st.sampled_from(["", "Europe/Vienna"]),
        "extra": st.sampled_from(["", "ZZ boats"]),
        **{name: st.booleans() for name in ("pending", "tagged", "wake", "updates", "buttons", "approvals")},
    }
)


@given(FACTS, st.booleans())
def test_each_sentence_is_backed_by_a_fact(fields: dict[str, object], only: bool) -> None:
    facts = full(**fields)
    facts = full(**fields, message_only=only and has_tool(facts, "message"))
    for sentence in split_sentences(render_prompt(facts).text):
        row = next((claim for start, claim in CLAIMS.items() if sentence.startswith(start)), None)
        if sentence.startswith(RECALL):
            row = have(*re.findall(r"`(memory_\w+)`", sentence))
        if row is None and HEADS.fullmatch(sentence):
            continue  # a title says nothing by itself
        assert row is not None, f"no row of this table says what is behind: {sentence!r}"
        assert row(facts), f"nothing is behind: {sentence!r}"


@given(FACTS)
def test_tools_commands_and_actions_that_are_named_exist(fields: dict[str, object]) -> None:
    facts = full(**fields)
    text = render_prompt(facts).text
    words = set(re.findall(r"`([a-z]+_[a-z_]+|exec|process|cron|gateway|message|read|subagents)`", text))
    fields_of_message = {"message", "buttons"} if has_tool(facts, "message") else set()
    assert words <= {tool.name for tool in facts.tools} | fields_of_message
    for line in re.findall(r"`pal ([a-z][^`]*)`", text):
        assert line.split()[0] in COMMANDS
    for name in re.findall(r"(?<![\w/.<-])/([a-z]+)(?=[ ;`]| …)", text):
        assert name in CHAT_COMMANDS, name
    for action in re.findall(r"\b((?:config|update)\.[a-z.]+)(?=[ ,)])", text):
        assert action.rstrip(".") in ACTIONS, action


def test_what_the_prompt_calls_a_look_is_one() -> None:
    text = next(s for s in split_sentences(render_prompt(full(inside="look")).text) if "can only look" in s)
    lines = [line.split() for line in re.findall(r"`pal ([a-z][^`]*)`", text)]
    assert len(lines) == 6 and [explain_refused_look(line) for line in lines] == [""] * 6


def test_the_pages_that_live_prompts_name_are_there() -> None:
    found = find_documentation()
    assert found.local and found.settings and all(page.startswith(found.local) for page in found.settings)
