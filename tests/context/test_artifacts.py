"""Hard facts are found in calls, requests and error lines, each once, in order of last mention."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.context.artifacts import KINDS, artifacts, error_lines, merge_artifacts
from tests.support.data import load_recordings, needs_recordings, to_messages


def call(name: str, **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "c1"}])


def result(text: str, **fields: object) -> ToolMessage:
    return ToolMessage(text, tool_call_id="c1", **fields)  # type: ignore[arg-type]


# where facts are found


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        (call("read", path="src/app.py"), "path: src/app.py"),
        (call("read", file_path="文档/报告 终稿.md"), "path: 文档/报告 终稿.md"),
        (call("edit", edits=[{"filePath": "/srv/a.ts", "newText": "x"}]), "path: /srv/a.ts"),
        (call("list", directory="C:\\work\\logs"), "path: C:\\work\\logs"),
        (call("bash", command="make test"), "command: make test"),
        (call("bash", command="ls"), "command: ls"),
        (call("run", cmd=["git", "push", "-u"]), "command: git push -u"),
        (call("execute_code", code="print(1)"), "command: print(1)"),
        (call("bash", command="python - <<'E'\nprint(1)\nE"), "command: python - <<'E' print(1) E"),
        (call("bash", command="cat docs/plan.md | head"), "path: docs/plan.md"),
        (call("get_reservation_details", reservation_id="PUNERT"), "id: PUNERT"),
        (call("cancel", orderId=48213), "id: 48213"),
        (call("book", flights=[{"flight_number": "HAT136"}]), "id: HAT136"),
        (call("fetch", target="https://example.com/a?b=1#c"), "url: https://example.com/a?b=1#c"),
        (HumanMessage("Please look at ./src/app.py:12, thanks."), "path: src/app.py"),
        (HumanMessage("请打开src/app.py然后运行"), "path: src/app.py"),
        (HumanMessage("请看“文档/报告.md”。"), "path: 文档/报告.md"),
        (HumanMessage("read @packages/core/src/main.ts"), "path: packages/core/src/main.ts"),
        (HumanMessage("see README.md."), "path: README.md"),
        (HumanMessage("mine is /home/ada/.config"), "path: /home/ada/.config"),
        (HumanMessage("see [this](https://example.com/wiki/A_(b)), ok"), "url: https://example.com/wiki/A_(b)"),
        (HumanMessage("见 https://example.com/页面。然后"), "url: https://example.com/页面"),
        (HumanMessage("ticket TK-204 is mine"), "id: TK-204"),
        (HumanMessage("order #W5432 was late"), "id: #W5432"),
        (HumanMessage("my code is XAZ3C0."), "id: XAZ3C0"),
        (HumanMessage("I am mia_li_3668"), "id: mia_li_3668"),
        (HumanMessage("broken since commit 83378aa"), "id: 83378aa"),
        (HumanMessage("job 0f8fad5b-d9cb-469f-a165-70867728950e"), "id: 0f8fad5b-d9cb-469f-a165-70867728950e"),
        (AIMessage("I wrote docs/plan.md."), "path: docs/plan.md"),
        (result("Created https://example.com/pull/7 for TK-9"), "url: https://example.com/pull/7"),
        (result(json.dumps({"reservation_id": "HATHAT", "rows": ["x" * 900]})), "id: HATHAT"),
    ],
)
def test_a_fact_is_found(message: BaseMessage, fact: str) -> None:
    assert fact in artifacts([message])


@pytest.mark.parametrize(
    "text",
    [
        "and/or, he/she, TCP/IP, 24/7, km/h, 2024/05/20, and text/html or application/json",
        "We use UTF-8, SHA-256 and e.g. 3.14; see you at 12:30.",
        "Yes. No... Well, I think so!",
        "</div><br/> // comment > /dev/null",
        "今天天气很好，我们去公园吧。",
    ],
)
def test_ordinary_text_holds_no_facts(text: str) -> None:
    assert artifacts([HumanMessage(text)]) == []


def test_system_messages_written_content_and_long_results_are_not_searched() -> None:
    messages = [
        SystemMessage("Rules are in docs/rules.md"),
        call("write", path="a.py", content="import b\nopen('other/c.py')\n"),
        result("see other/d.py\n" * 100),
    ]
    assert artifacts(messages) == ["path: a.py"]


def test_a_sub_command_of_an_editor_is_no_command() -> None:
    assert artifacts([call("str_replace_editor", command="view", path="/repo/a.c")]) == ["path: /repo/a.c"]


# errors


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: not enough seats on flight 7", "Error: not enough seats on flight 7"),
        ('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad', "ValueError: bad"),
        ("Traceback (most recent call last):\n  File x\nmy.pkg.Stop", "my.pkg.Stop"),
        ("ok\nsrc/a.ts(3,1): error TS2304: Cannot find name", "src/a.ts(3,1): error TS2304: Cannot find name"),
        ("a.c:3:5: error: expected ';'", "a.c:3:5: error: expected ';'"),
        ("error[E0308]: mismatched types", "error[E0308]: mismatched types"),
        ("built\n\nCommand exited with code 2", "Command exited with code 2"),
        ("Exit code 1", "Exit code 1"),
        ("bash: ponyc: command not found", "bash: ponyc: command not found"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("FAILED tests/test_a.py::test_b - assert 0", "FAILED tests/test_a.py::test_b - assert 0"),
        ("== 1 failed, 3 passed in 0.1s ==", "== 1 failed, 3 passed in 0.1s =="),
        ("\x1b[31mError: red\x1b[0m", "Error: red"),
        ("查询失败：没有这样的酒店", "查询失败：没有这样的酒店"),
        ("进程已结束，退出代码 1", "进程已结束，退出代码 1"),
        ("HTTP/1.1 404 Not Found", "HTTP/1.1 404 Not Found"),
        ('{"error": "no such order", "rows": []}', "no such order"),
        ('{"error": {"code": 7}}', '{"code": 7}'),
        ('{"success": false, "why": "closed"}', '{"success": false, "why": "closed"}'),
        ('{"exit_code": 3}', '{"exit_code": 3}'),
    ],
)
def test_an_error_is_found(text: str, error: str) -> None:
    assert error in error_lines(result(text))
    assert f"error: {error}" in artifacts([result(text)])


@pytest.mark.parametrize(
    "text",
    [
        "all good\nexit code 0\nHTTP/1.1 200 OK",
        '{"error": null, "success": true, "status": "ok", "exit_code": 0}',
        "    raise ValueError('x')\n12\t    except OSError as error:\n// if it failed, retry",
        "Errors and help requests typically print messages.\nconst ERROR = 3",
        "",
    ],
)
def test_code_and_success_are_no_errors(text: str) -> None:
    assert error_lines(result(text)) == []


def test_the_error_status_counts_in_any_language() -> None:
    assert error_lines(result("\n  Geen verbinding\nmeer", status="error")) == ["Geen verbinding"]
    assert error_lines(result("", status="error")) == ["(no text)"]


def test_of_many_errors_the_first_and_the_last_are_kept() -> None:
    lines = [f"Error: number {index}" for index in range(50)]
    assert error_lines(result("\n".join(lines))) == [*lines[:2], *lines[-3:]]


def test_the_end_of_a_huge_result_is_read() -> None:
    text = "row\n" * 50_000 + "Error: disk full\n"
    assert artifacts([result(text)]) == ["error: Error: disk full"]


# shape and order


def test_facts_are_unique_and_the_last_mention_counts() -> None:
    messages = [HumanMessage("a.py then b.py"), AIMessage("c.py"), HumanMessage("b.py and a.py")]
    assert artifacts(messages) == ["path: c.py", "path: b.py", "path: a.py"]


def test_facts_of_the_same_messages_are_the_same_whoever_asks() -> None:
    messages = [HumanMessage("TK-1 TK-2 TK-300 a/b.py https://a.example")]
    assert artifacts(messages) == artifacts(list(messages))


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(), max_size=300).map(HumanMessage),
            st.text(st.characters(), max_size=300).map(result),
            st.dictionaries(st.sampled_from(["path", "command", "user_id", "x"]), st.text(max_size=300)).map(
                lambda args: call("bash", **args)
            ),
        ),
        max_size=4,
    )
)
def test_every_fact_of_any_messages_is_one_short_line_with_its_kind(messages: list[BaseMessage]) -> None:
    found = artifacts(messages)
    assert len(set(found)) == len(found)
    for fact in found:
        assert fact.partition(": ")[0] in KINDS
        assert len(fact) <= 200
        assert len(fact.splitlines()) == 1
        fact.encode()


@pytest.mark.parametrize(
    "arguments",
    [{"a": {"b": {"c": [[[[[[[["deep"]]]]]]]]}}}, {"n": None, "b": True, "f": 1.5}, {"path": ""}, {"path": "."}, {}],
)
def test_arguments_without_facts_give_none(arguments: dict[str, object]) -> None:
    assert artifacts([call("tool", **arguments)]) == []


def test_text_made_to_stall_a_search_is_read_in_linear_time() -> None:
    hostile = [
        "a/" * 20_000,
        '"' + "仓" * 40_000,
        "_1" * 20_000,
        "Error" * 8_000,
        "://" * 10_000,
        "#" * 40_000,
        "A-" * 20_000,
    ]
    for text in hostile:
        artifacts([HumanMessage(text), result(text), call("bash", command=text, path=text)])


@needs_recordings
def test_every_path_of_the_last_edits_of_a_recording_is_found_and_kept() -> None:
    messages = to_messages(load_recordings("pi_sessions")[0])
    calls = [c for m in messages if isinstance(m, AIMessage) for c in m.tool_calls if c["name"] in ("edit", "write")]
    edited = {f"path: {c['args']['path']}" for c in calls[-50:]}
    found = artifacts(messages)
    assert edited <= set(found)
    newest = [fact for fact in merge_artifacts([], found) if fact.startswith("path: ")]
    assert f"path: {calls[-1]['args']['path']}" in newest


@needs_recordings
def test_every_reservation_asked_for_in_a_recording_is_found() -> None:
    for record in load_recordings("tau_airline")[:20]:
        messages = to_messages(record)
        calls = [c for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
        asked = {f"id: {c['args']['reservation_id']}" for c in calls if "reservation_id" in c["args"]}
        assert asked <= set(artifacts(messages))


# merge_artifacts


def test_merging_keeps_the_order_of_last_mention() -> None:
    assert merge_artifacts(["path: a", "path: b"], ["path: c", "path: a"]) == ["path: b", "path: c", "path: a"]


def test_many_commands_do_not_push_out_the_other_kinds() -> None:
    commands = [f"command: make {index}" for index in range(100)]
    kept = merge_artifacts(
        ["path: a.py", "url: https://a.example", "id: TK-1", "error: Error: x"], commands, max_items=10
    )
    assert kept == ["path: a.py", "url: https://a.example", "id: TK-1", "error: Error: x", *commands[-6:]]


def test_an_item_too_long_for_the_room_is_left_out_and_others_stay() -> None:
    assert merge_artifacts(["path: a"], ["command: " + "x" * 90], max_chars=50) == ["path: a"]


ITEMS = st.lists(st.builds("{}: {}".format, st.sampled_from([*KINDS, "other"]), st.integers(0, 40)))


@given(ITEMS, ITEMS, st.integers(0, 20), st.integers(0, 200))
def test_merging_stays_within_its_limits_and_is_stable(
    old: list[str], new: list[str], max_items: int, max_chars: int
) -> None:
    kept = merge_artifacts(old, new, max_items=max_items, max_chars=max_chars)
    assert len(kept) <= max_items
    assert sum(len(item) + 1 for item in kept) <= max_chars
    assert set(kept) <= {*old, *new}
    assert merge_artifacts(kept, [], max_items=max_items, max_chars=max_chars) == kept
    assert merge_artifacts([], [*old, *new], max_items=max_items, max_chars=max_chars) == kept


def test_the_newest_of_each_kind_is_kept_first() -> None:
    items = [f"{kind}: {index}" for index in range(5) for kind in KINDS]
    assert merge_artifacts(items, [], max_items=len(KINDS)) == items[-len(KINDS) :]
