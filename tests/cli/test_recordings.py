import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_memory.cli.errors import RecordingError
from langgraph_memory.cli.recordings import Recording, read_recordings

from .recorded import assistant, call, tool, user, write


def read(name: str, text: str, **options: object) -> list[Recording]:
    Path(name).write_text(text, encoding="utf-8")
    return list(read_recordings(Path(name), **options))


def only(*messages: object) -> list[object]:
    (recording,) = read_recordings(write("r.jsonl", [("c", list(messages))]))
    return list(recording.messages)


def test_roles_become_messages_with_ids_made_from_the_conversation_and_the_position():
    messages = only(
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "u", "name": "Ada"},
        assistant(None, call("c1", "look", '{"n": 1}')),
        tool("c1", "t"),
    )
    kinds = [SystemMessage, SystemMessage, HumanMessage, AIMessage, ToolMessage]
    assert [type(message) for message in messages] == kinds
    assert [message.id for message in messages] == [f"c-{i}" for i in range(5)]
    assert messages[2].name == "Ada"
    assert messages[3].content == ""
    assert messages[3].tool_calls == [{"id": "c1", "name": "look", "args": {"n": 1}, "type": "tool_call"}]
    assert (messages[4].tool_call_id, messages[4].name) == ("c1", "look")


@pytest.mark.parametrize("arguments", ["{not json", "[1]", "3", "null"])
def test_arguments_that_are_no_json_object_make_an_invalid_call(arguments):
    message = only(user("u"), assistant("", call("c1", "look", arguments)))[1]
    assert message.tool_calls == []
    assert [(c["id"], c["name"], c["args"]) for c in message.invalid_tool_calls] == [("c1", "look", arguments)]


@pytest.mark.parametrize("arguments", ["", None, {}, "{}"])
def test_missing_arguments_are_an_empty_object(arguments):
    assert only(user("u"), assistant("", call("c1", "look", arguments)))[1].tool_calls[0]["args"] == {}


def test_what_a_database_cannot_store_is_read_as_something_it_can():
    arguments = '{"n": 123456789012345678901234567890, "low": -9223372036854775808, "text": "\\ud800"}'
    message = only(user("half \ud83d"), assistant("", call("c1", "look", arguments)))
    assert message[0].content == "half �"
    args = {"n": "123456789012345678901234567890", "low": "-9223372036854775808", "text": "�"}
    assert message[1].tool_calls[0]["args"] == args


def test_a_conversation_without_an_id_is_named_after_its_line_and_a_repeated_id_is_told_apart():
    pair = [user("a"), assistant("b")]
    path = write("r.jsonl", [("x", pair), {"messages": pair}, ("x", pair), pair])
    assert [recording.id for recording in read_recordings(path)] == ["x", "line-2", "x~2", "line-4"]


def test_lines_without_messages_are_skipped_with_a_note():
    notes: list[str] = []
    path = write("r.jsonl", [{"id": "raw", "text": "t"}, ("x", [user("a")]), ("y", []), "word", 3])
    assert [recording.id for recording in read_recordings(path, note=notes.append)] == ["x"]
    skipped = [note for note in notes if note.endswith("skipped")]
    assert [note.split(": ")[0] for note in skipped] == [f"r.jsonl:{line}" for line in (1, 3, 4, 5)]
    assert all("`messages`" in note for note in skipped)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ({"role": "user", "content": 5}, "5"),
        ({"role": "assistant", "content": {"text": None}}, '{"text": null}'),
        ({"role": "user", "content": [1, 2]}, "[1, 2]"),
        ({"role": "tool", "content": "t"}, "tool_call_id"),
        ({"role": "tool", "content": "t", "tool_call_id": ""}, "tool_call_id"),
    ],
)
def test_a_message_that_no_provider_would_take_is_skipped_with_a_note(message, named):
    notes: list[str] = []
    path = write("r.jsonl", [("x", [user("a"), assistant("b")]), ("y", [user("a"), message, assistant("b")])])
    recording = list(read_recordings(path, note=notes.append))[1]
    assert [m.id for m in recording.messages] == ["y-0", "y-2"]
    assert [note.startswith("r.jsonl:2: message 1 ") and named in note for note in notes] == [True]


@pytest.mark.parametrize("messages", [5, "text", {"role": "user"}, None])
def test_messages_that_are_no_list_are_skipped_with_a_note(messages):
    notes: list[str] = []
    path = write("r.jsonl", [{"id": "x", "messages": messages}])
    assert list(read_recordings(path, note=notes.append)) == []
    assert [note.startswith("r.jsonl:1: ") and "not a list" in note for note in notes] == [True]


def test_a_conversation_without_calls_is_kept_with_a_note():
    notes: list[str] = []
    path = write("r.jsonl", [("x", [user("a"), assistant("b")]), ("y", [user("a")]), ("z", [assistant("b")])])
    assert len(list(read_recordings(path, note=notes.append))) == 3
    assert [note.split(": ")[0] for note in notes] == ["r.jsonl:2", "r.jsonl:3"]
    assert all("assistant" in note for note in notes)


def test_the_limit_counts_conversations_and_not_lines():
    path = write("r.jsonl", [{"id": "raw"}, ("x", [user("a")]), ("y", [user("a")]), ("z", [user("a")])])
    assert [recording.id for recording in read_recordings(path, limit=2)] == ["x", "y"]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_that_is_one_json_value_is_understood(indent):
    one = {"id": "x", "messages": [user("a"), assistant("b")]}
    for value, ids in ((one, ["x"]), ([one, {**one, "id": "y"}], ["x", "y"]), (one["messages"], ["line-1"])):
        assert [recording.id for recording in read("r.json", json.dumps(value, indent=indent))] == ids


def test_blank_lines_and_a_byte_order_mark_are_passed_over():
    line = json.dumps({"id": "x", "messages": [user("a")]})
    assert [recording.id for recording in read("r.jsonl", f"\ufeff{line}\n\n   \n")] == ["x"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"messages": []}\n{"id": \n', "r.jsonl:2: not JSON"),
        ('{"id": ', "r.jsonl:1: not JSON"),
        ('{"messages": [{"role": "robot"}]}', 'r.jsonl:1: message 0 has the role "robot"'),
        ('{"messages": ["hello"]}', "r.jsonl:1: message 0 is not an object"),
        ('{"messages": [{"role": "assistant", "tool_calls": ["x"]}]}', "r.jsonl:1: message 0 has a tool call"),
    ],
)
def test_a_fault_names_file_and_line(text, place):
    with pytest.raises(RecordingError, match="^" + place):
        read("r.jsonl", text)


def test_bytes_that_are_not_utf8_are_a_fault():
    Path("r.jsonl").write_bytes(b'{"messages": [], "x": "\xff"}\n')
    with pytest.raises(RecordingError, match=r"^r\.jsonl:1: byte 23 is not UTF-8"):
        list(read_recordings(Path("r.jsonl")))


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."])
def test_a_file_that_cannot_be_read_is_a_fault(name):
    with pytest.raises(RecordingError, match="cannot be read"):
        list(read_recordings(Path(name)))


def test_what_is_put_in_ends_before_the_reply_and_begins_with_everything_before_the_first_request():
    path = write(
        "r.jsonl", [("x", [assistant("hello"), user("a"), user("b"), assistant("c"), tool("z", "t"), user("d")])]
    )
    (recording,) = read_recordings(path)
    assert [message.content for message in recording.inputs(0)] == ["hello", "a", "b"]
    assert [message.content for message in recording.inputs(4)] == ["t", "d"]
    assert [message.content for message in recording.results(4)] == ["t"]
    assert recording.calls == 1
