import json
import os

from palinurus.testing.home import drop_message, get_spool_dir, get_work_dir, make_home, overlay_config, read_delivered


def test_a_home_holds_config_workspace_and_files(tmp_path):
    home = make_home(tmp_path, {"gateway": {"port": 1}}, {"notes/a.txt": "A"}, url="http://127.0.0.1:9/v1")
    with open(os.path.join(home, "palinurus.json")) as handle:
        config = json.load(handle)
    assert config["gateway"]["port"] == 1 and config["gateway"]["auth"]["mode"] == "token"
    assert config["models"]["providers"]["fake"]["baseUrl"] == "http://127.0.0.1:9/v1"
    assert config["agents"]["defaults"]["workspace"] == get_work_dir(home)
    with open(os.path.join(get_work_dir(home), "notes/a.txt")) as handle:
        assert handle.read() == "A"


def test_overlay_merges_and_removes():
    assert overlay_config({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": [1]}) == {
        "a": {"c": 2, "e": 4},
        "d": [1],
    }


def test_the_spool_is_written_whole_and_read_without_a_torn_line(tmp_path):
    home = make_home(tmp_path, spool=True)
    with open(drop_message(home, "m1", "hello")) as handle:
        assert json.load(handle) == {"id": "m1", "from": "human", "to": "chat", "text": "hello"}
    assert os.listdir(os.path.join(get_spool_dir(home), "in")) == ["m1.json"] and read_delivered(home) == []
    with open(os.path.join(get_spool_dir(home), "out.jsonl"), "w") as handle:
        handle.write('{"client_id": "c", "text": "a"}\n{"client_')
    assert [line["client_id"] for line in read_delivered(home)] == ["c"]
