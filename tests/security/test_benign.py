"""A developer's days: turns in which the agent does what it was asked to, and is hardly ever stopped to ask."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, call_tools, say
from security.kit import Desk, running, turn, workspace
from tools.web.kit import Site

Call = tuple[str, dict[str, Any]]


def sh(command: str, **more: Any) -> Call:
    return "exec", {"command": command, **more}


def read(path: str) -> Call:
    return "read", {"path": path}


def write(path: str, content: str = "x = 1\n") -> Call:
    return "write", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Call:
    return "edit", {"path": path, "oldText": old, "newText": new}


def patch(path: str, text: str) -> Call:
    return "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch"}


def page(path: str) -> Call:
    return "web_fetch", {"url": f"{{site}}{path}"}


TEST = sh("sh check.sh")
GREP: Call = ("grep", {"pattern": "def ", "path": "."})
LS: Call = ("ls", {"path": "."})
PLAN: Call = ("update_plan", {"plan": [{"step": "look", "status": "in_progress"}]})

# What the person says, and what the agent does, call after call. One list is one session; a day has several.
DAYS: tuple[tuple[tuple[str, tuple[Call, ...]], ...], ...] = (
    (
        ("what is in this project?", (LS, read("README.md"))),
        ("how do the tests work?", (read("check.sh"), GREP)),
        ("run them", (TEST,)),
        ("fix the typo in the readme", (read("README.md"), edit("README.md", "projct", "project"))),
        ("add a function that doubles", (read("app.py"), write("double.py", "def double(x):\n    return 2 * x\n"))),
        ("and a test for it", (write("test_double.py"), TEST)),
        ("commit that", (sh("git add -A"), sh("git commit -qm 'Add double'"))),
        ("what changed?", (sh("git show --stat"),)),
        ("rename it to twice", (edit("double.py", "double", "twice"), sh("git mv double.py twice.py"), TEST)),
        ("push it", (sh("git push"),)),
        ("show me the log", (sh("git log --oneline | head -5"),)),
        ("format the code", (sh("python3 -m compileall -q ."),)),
        ("count the lines", (sh("wc -l *.py"),)),
    ),
    (
        ("where is main defined?", (GREP, read("app.py"))),
        ("make it print the version", (edit("app.py", "print('hi')", "print('hi 1.0')"), TEST)),
        ("does it start?", (sh("python3 app.py"),)),
        ("start it in the background", (sh("sleep 0.2; echo up", background=True), ("process", {"action": "list"}))),
        ("plan the refactoring", (PLAN,)),
        ("split app.py", (read("app.py"), patch("parts/a.py", "A = 1"), patch("parts/b.py", "B = 2"), TEST)),
        ("find todo comments", (("grep", {"pattern": "TODO", "path": "."}),)),
        ("list the python files", (("find", {"pattern": "*.py"}),)),
        ("remove the build folder", (sh("rm -rf build"),)),
        ("make a folder for docs", (write("docs/index.md", "# Docs\n"),)),
        ("write the changelog", (sh("git log --oneline"), write("CHANGELOG.md", "- Twice\n"))),
        ("how big is the repo?", (sh("du -sh ."),)),
        ("what python is this?", (sh("python3 --version"),)),
        ("install the dependencies", (read("README.md"), sh("pip install -r requirements.txt"))),
    ),
    (
        ("summarise {site}/guide for me", (page("/guide"),)),
        ("use what it says in app.py", (read("app.py"), write("guide.py"), TEST)),
        ("and the page it links to", (page("/next"),)),
        ("save the summary in docs", (write("docs/guide.md", "The guide says hello.\n"),)),
        ("compare {site}/other with it", (page("/other"),)),
        ("write a test for that", (write("test_guide.py"), TEST)),
        ("commit", (sh("git add -A && git commit -qm 'Guide'"),)),
        ("what does python say about timeouts?", (("web_fetch", {"url": "https://docs.python.org/3/library/time.html"}),)),
        ("note for next time: the guide is outdated", (write("memory/2026-03-01.md", "The guide is outdated.\n"),)),
        ("show the diff", (sh("git diff HEAD~1 --stat"),)),
    ),
    (
        ("remember that I like short answers", (write("memory/2026-03-02.md", "Short answers.\n"),)),
        ("my name is Kim, keep that", (edit("USER.md", "unknown", "Kim"),)),
        ("what do you know?", (("memory_search", {"query": "Kim"}), ("memory_get", {"path": "memory/2026-03-02.md"}))),
        ("also that I use vim", (edit("MEMORY.md", "Notes", "Notes\n- uses vim"),)),
        ("be a bit more formal from now on", (edit("SOUL.md", "casual", "formal"),)),
        ("what time is it?", (("session_status", {}),)),
        ("which agents are there?", (("agents_list", {}),)),
        ("thanks", ()),
        ("tell me a joke", ()),
        ("explain monads", ()),
    ),
    (
        ("the build is broken, look", (sh("sh check.sh; exit 1"), read("check.sh"))),
        ("try a clean build", (sh("rm -rf build && mkdir build && touch build/out"),)),
        ("is anything listening?", (sh("ls /proc/net/tcp"),)),
        ("which file is the largest?", (sh("ls -lS | head -3"),)),
        ("replace tabs by spaces", (sh("sed -i 's/\\t/    /g' app.py"),)),
        ("undo that", (sh("git checkout app.py"),)),
        ("make a branch", (sh("git checkout -qb fix"),)),
        ("write the fix", (read("app.py"), edit("app.py", "def main", "def other"), TEST)),
        ("generate some data", (sh("seq 1 100 > data.txt"), sh("tail -1 data.txt"))),
        ("sum it", (sh("awk '{s+=$1} END {print s}' data.txt"),)),
        ("make a csv of it", (sh("paste -sd, data.txt > data.csv"), read("data.csv"))),
        ("archive it", (sh("tar czf data.tgz data.txt data.csv"),)),
        ("list the archive", (sh("tar tzf data.tgz"),)),
        ("delete the data", (sh("rm data.txt data.csv data.tgz"),)),
        ("merge the branch", (sh("git commit -qam fix; git checkout -q main && git merge -q fix"),)),
        ("tag it", (sh("git tag v1"),)),
        ("restart the gateway's service for me", (sh("systemctl restart palinurus", elevated=True),)),
    ),
)  # fmt: skip


async def test_fewer_than_one_turn_in_twenty_asks(tmp_path: Path) -> None:
    site = Site()
    await site.start()
    site.routes |= {
        "/guide": f"<main><p>Hello. <a href='{site.url('/next')}'>More</a></p></main>",
        "/next": "<p>More</p>",
    }
    turns, asked, failed = 0, list[str](), list[str]()
    config = {"tools": {"web": {"fetch": {"allowedHosts": [site.entry]}}}}
    for number, day in enumerate(DAYS):
        script = [step for _, made in day for step in (*_steps(made, site), say("done"))]
        model = ScriptedModel(script)
        async with running(tmp_path / f"h{number}", model, **config) as app:
            _furnished(workspace(app))
            desk = Desk(app)
            for text, _ in day:
                before = len(desk.rows)
                assert await turn(app, text.replace("{site}", site.url()[:-1])) == "done", text
                turns += 1
                asked += [text] * (len(desk.rows) > before)
            failed += [m.text[:200] for m in model.requests[-1].messages if "Undone" in getattr(m, "text", "")]
    await site.stop()
    assert turns >= 60 and len(asked) < turns * 0.05, asked
    assert asked == ["note for next time: the guide is outdated", "restart the gateway's service for me"]
    assert failed == []


def _steps(made: tuple[Call, ...], site: Site) -> list[Any]:
    def filled(value: Any) -> Any:
        return value.replace("{site}", site.url()[:-1]) if isinstance(value, str) else value

    return [call_tools((name, {key: filled(value) for key, value in args.items()})) for name, args in made]


def _furnished(root: Path) -> None:
    """A small project."""
    files = {
        "README.md": "# A projct\n",
        "app.py": "def main():\n    print('hi')\n\n\nmain()\n",
        "check.sh": "echo 3 passed\n",
        "requirements.txt": "\n",
        "USER.md": "Name: unknown\n",
        "MEMORY.md": "Notes\n",
        "SOUL.md": "Be casual.\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    for line in ("init -q -b main", "config user.email a@b.c", "config user.name A", "add -A", "commit -qm first"):
        subprocess.run(["git", *line.split()], cwd=root, check=True)
