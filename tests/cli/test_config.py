import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langgraph_memory.cli.config import app
from langgraph_memory.config import RuntimeConfig, config_values, json_schema
from langgraph_memory.errors import ConfigError

TOOLS = [f"a_tool_with_a_name_{number}" for number in range(40)]
KEY = "memory.pruning.exclude_tools"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "DB_PATH", "WORKSPACE"):
        monkeypatch.delenv(f"LANGGRAPH_MEMORY_{name}", raising=False)


def lgm_config(*args: str, **environ: str | None) -> Result:
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "200", **environ})


def write(name: str, data: object) -> str:
    Path(name).write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return name


def test_check_names_the_valid_file_on_stdout():
    result = lgm_config("check", write("ok.json", {"memory": {"tokenizer": "estimate"}}))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ok.json: valid\n", "")


def test_check_finds_the_file_in_the_working_folder():
    write("runtime.json", {})
    assert lgm_config("check").stdout == "runtime.json: valid\n"


def test_check_says_when_there_is_no_file():
    assert lgm_config("check").stdout == "no configuration file: the defaults are in effect\n"


@pytest.mark.parametrize("command", [["check"], ["show"], ["show", "--json"]])
def test_a_bad_file_raises_the_config_error_and_prints_nothing(command):
    result = lgm_config(*command, write("bad.json", {"memory": {"tokenizer": 5}, "pruning": {}}))
    assert isinstance(result.exception, ConfigError)
    assert len(str(result.exception).splitlines()) == 2
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_missing_file_raises_the_config_error(command):
    assert isinstance(lgm_config(command, "no.json").exception, ConfigError)


def test_show_prints_every_key_with_value_and_origin():
    path = write("c.json", {"memory": {"namespace": ["[bold]潮汐"]}})
    lines = lgm_config("show", path, LANGGRAPH_MEMORY_DB_PATH="b.db").stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert list(rows) == list(config_values(RuntimeConfig()))
    assert rows["memory.namespace"][:2] == ['["[bold]潮汐"]', "c.json"]
    assert rows["persistence.thread_db"] == ['"b.db"', "LANGGRAPH_MEMORY_DB_PATH"]
    assert rows["memory.pruning.protect_recent"] == ["3", "default"]


@pytest.mark.parametrize("width", [None, 20, 60, 100, 200])
def test_show_cuts_nothing_off(width):
    path = write("c.json", {"persistence": {"thread_db": "a" * 300}, "memory": {"pruning": {"exclude_tools": TOOLS}}})
    out = lgm_config("show", path, COLUMNS=width and str(width)).stdout
    assert "…" not in out
    together = "".join(out.split())
    assert together.count("a") >= 300
    assert all(f'"{tool}"' in together for tool in TOOLS) or width
    if width is None:
        lines = [line.split(maxsplit=1)[1] for line in out.splitlines()]
        assert json.loads(lines[1 + list(config_values(RuntimeConfig())).index(KEY)].partition(" c.json")[0]) == TOOLS


def test_show_json_prints_one_object_however_narrow_the_terminal():
    path = write("c.json", {"memory": {"namespace": ["潮" * 200]}})
    shown = json.loads(lgm_config("show", path, "--json", COLUMNS="20").stdout)
    assert shown["memory.namespace"] | {"value": ["潮" * 200], "origin": "c.json"} == shown["memory.namespace"]
    assert {key: row["value"] for key, row in shown.items() if row["origin"] == "default"} == {
        key: value for key, value in config_values(RuntimeConfig()).items() if key != "memory.namespace"
    }


def test_schema_prints_the_json_schema():
    assert json.loads(lgm_config("schema").stdout) == json_schema()


def test_check_names_the_sizes_that_the_window_does_not_allow():
    path = write("c.json", {"memory": {"context_window": 8000, "compaction": {"reserve_tokens": 2000}}})
    lines = lgm_config("check", path).stderr.splitlines()
    keys = ["memory.budget.response_tokens", "memory.compaction.keep_recent_tokens"]
    assert [line.split()[0] for line in lines][:2] == keys
    assert lines[0].endswith("is 2000, used is 1000 because of memory.context_window, which is 8000")


def test_check_json_says_all_of_it_in_one_object():
    path = write("c.json", {"memory": {"context_window": 8000, "flush": {"enabled": True}}})
    result = lgm_config("check", path, "--json")
    shown = json.loads(result.stdout)
    assert (shown["file"], shown["valid"]) == ("c.json", True)
    assert {"key": "memory.budget.response_tokens", "configured": 2000, "used": 1000} in shown["capped"]
    assert result.stderr == ""
    bad = lgm_config("check", write("bad.json", {"memory": {"tokenizer": 5}, "pruning": {}}), "--json")
    shown = json.loads(bad.stdout)
    assert (bad.exit_code, shown["valid"], len(shown["problems"])) == (2, False, 2)
