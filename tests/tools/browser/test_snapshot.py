"""Pages as text, from trees made by hand."""

from __future__ import annotations

from typing import Any

from palinurus.tools.browser.snapshot import (
    FrameTree,
    RefBook,
    SnapshotOptions,
    describe_change,
    render_page,
)


def node(ident: int, role: str, name: str = "", *children: int, **more: Any) -> dict[str, Any]:
    made = {"nodeId": str(ident), "role": {"value": role}, "name": {"value": name}, "backendDOMNodeId": ident}
    return {**made, "childIds": [str(child) for child in children], **more}


def told(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": {"value": value}} for name, value in values.items()]


TREE = FrameTree(
    "s",
    "f",
    [
        node(1, "RootWebArea", "Shop", 2, 5, 8),
        node(2, "heading", "Hello", 3, parentId="1", properties=told(level=1)),
        node(3, "StaticText", "Hello", parentId="2"),
        node(5, "form", "", 6, 7, parentId="1"),
        node(6, "textbox", "Name", parentId="5", value={"value": 'B"ob'}, properties=told(required=True)),
        node(7, "button", "Send", parentId="5", properties=told(disabled=True)),
        node(8, "Iframe", "", parentId="1"),
    ],
    {8: "inner"},
    {9: "canvas"},
)
LINK = node(2, "link", "Out", parentId="1", properties=told(url="https://a.example/"))
INNER = FrameTree("s2", "inner", [node(1, "RootWebArea", "", 2), LINK])
TREES = {"f": TREE, "inner": INNER}


def render(refs: RefBook | None = None, **options: Any) -> list[str]:
    return list(render_page(TREES, "f", SnapshotOptions(**options), refs or RefBook()).lines)


def test_roles_names_states_frames_and_refs() -> None:
    assert render() == [
        '- heading "Hello" [level=1]',
        "- form",
        '  - textbox "Name" [required] value="B\'ob" [ref=e1]',
        '  - button "Send" [disabled] [ref=e2]',
        "- iframe [ref=e3]",
        '  - link "Out" [ref=e4]',
        "- canvas [ref=e5]",
    ]


def test_only_what_can_be_acted_on_flat_and_with_addresses() -> None:
    lines = render(interactive=True, urls=True)
    assert lines[0].startswith('- textbox "Name"') and '- link "Out" -> https://a.example/ [ref=e4]' in lines
    assert not any("heading" in line for line in lines)


def test_a_long_page_is_cut_and_says_so() -> None:
    shown = render_page(TREES, "f", SnapshotOptions(chars=30), RefBook())
    assert shown.cut == 5 and "5 more lines" in shown.text


def test_depth_root_and_compact() -> None:
    assert len(render(depth=0)) == 7 and all(not line.startswith("  ") for line in render(root=6))
    assert "- form" not in render(compact=True)


def test_an_element_keeps_its_ref_and_a_new_page_reuses_none() -> None:
    refs = RefBook()
    first = render(refs)
    assert render(refs) == first
    found = refs.find("[ref=e4]")
    assert found is not None and (found.session, found.frame, found.node) == ("s2", "inner", 2)
    assert refs.find("4") == found
    refs.forget()
    assert refs.find("e4") is None
    assert "[ref=e6]" in render(refs)[2]


def test_a_change_names_what_went_and_what_came() -> None:
    old, new = ['- button "A"', "- form", "- form"], ["- form", '- button "B"', "- form"]
    assert describe_change(old, new, 100) == '- - button "A"\n+ - button "B"'
    assert describe_change(old, old, 100) == ""
    assert "much has changed" in describe_change([], [f"- text {n}" for n in range(99)], 100)
