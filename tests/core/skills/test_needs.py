"""The line that gets what a skill lacks, and what a skill may do, in words."""

from __future__ import annotations

import pytest

from palinurus.core.skills.needs import suggest_install, tell_permissions
from palinurus.core.skills.skill import Skill


@pytest.mark.parametrize(
    ("recipes", "here", "line"),
    [
        (("brew: steipete/tap/gifgrep",), {"brew"}, "brew install steipete/tap/gifgrep"),
        (("brew: jq",), {"apt-get"}, "sudo apt-get install -y jq"),
        (("node: @org/tool",), {"npm"}, "npm install -g @org/tool"),
        (("go: example.org/x/cmd/tool",), {"go"}, "go install example.org/x/cmd/tool@latest"),
        (("uv: nano-pdf",), {"pip"}, "pip install --user nano-pdf"),
        (("apt: ffmpeg; rm -rf ~",), {"apt-get"}, "sudo apt-get install -y ffmpeg"),  # such a recipe is passed over
        ((), {"brew"}, "brew install ffmpeg"),
        ((), set(), ""),
    ],
)
def test_the_line(recipes: tuple[str, ...], here: set[str], line: str) -> None:
    skill = Skill(name="s", description="d", install=recipes)
    assert suggest_install(skill, "ffmpeg", here.__contains__) == line


def test_other_names_of_packages_and_names_that_are_none() -> None:
    skill = Skill(name="s", description="d")
    assert suggest_install(skill, "pdftotext", {"brew"}.__contains__) == "brew install poppler"
    assert suggest_install(skill, "x; reboot", {"brew"}.__contains__) == ""


def test_permissions_in_words() -> None:
    plain = tell_permissions(Skill(name="s", description="d"), frozenset())
    assert len(plain) == 1
    all_of_it = tell_permissions(
        Skill(name="s", description="d", dispatch="exec", always=True, primary_env="K", install=("apt: x",)),
        frozenset(("executable", "network", "secrets")),
    )
    assert len(all_of_it) == 8
