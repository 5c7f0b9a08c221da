import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langgraph_memory.cli.config import app
from langgraph_memory.config import RuntimeConfig, config_values, json_schema
from langgraph_memory.errors import ConfigError


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "DB_PATH", "WORKSPACE"):
        monkeypatch.delenv(f"LANGGRAPH_MEMORY_{name}", raising=False)


def lgm_config(*args: str, **environ: str) -> Result:
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
    assert rows["memory.namespace"] == ['["[bold]潮汐"]', "c.json"]
    assert rows["persistence.thread_db"] == ['"b.db"', "LANGGRAPH_MEMORY_DB_PATH"]
    assert rows["memory.pruning.protect_recent"] == ["3", "default"]


def test_show_json_prints_one_object_however_narrow_the_terminal():
    path = write("c.json", {"memory": {"namespace": ["潮" * 200]}})
    shown = json.loads(lgm_config("show", path, "--json", COLUMNS="20").stdout)
    assert shown["memory.namespace"] == {"value": ["潮" * 200], "origin": "c.json"}
    assert {key: row["value"] for key, row in shown.items() if row["origin"] == "default"} == {
        key: value for key, value in config_values(RuntimeConfig()).items() if key != "memory.namespace"
    }


def test_schema_prints_the_json_schema():
    assert json.loads(lgm_config("schema").stdout) == json_schema()
