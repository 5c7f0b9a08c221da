"""What was forgotten stands nowhere any more, in no spelling; everything else stands as it did."""

import json
import sqlite3
import threading
from datetime import date
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_from_dict

from langgraph_memory.cache import FileCache, Guarded, ProcessCache
from langgraph_memory.longterm import forgetting
from langgraph_memory.longterm.cues import Kind
from langgraph_memory.longterm.curated import Block
from langgraph_memory.longterm.entry import lines_of
from langgraph_memory.longterm.flush import WRITTEN
from langgraph_memory.longterm.folder import MEMORY, STATE, WorkspaceError
from langgraph_memory.longterm.forgetting import holding
from langgraph_memory.longterm.keeper import Keeper
from langgraph_memory.longterm.merge import heading_of
from langgraph_memory.sessions import SessionLog
from tests.support.ledgers import pending

LOG = "memory/2031-04-12.md"
SECRETS = {
    "english": "the launch code is 4711",
    "chinese": "发射代码是四七一一",
    "russian": "Код запуска — 4711",
    "arabic": "رمز الإطلاق ٤٧١١",
    "accents": "Le café d’Amélie",
    "quotes": 'a "quoted" \\ word/<tag> & more',
    "emoji": "secret 🚀 rocket",
    "lines": "first line\nsecond line",
}


@pytest.fixture
def keeper(tmp_path):
    return Keeper(tmp_path / "ws", ("ada",))


def spellings(secret):
    """How a text may stand in a file: as it is, in other cases, in JSON of two kinds, and in JSON in that."""
    for text in {secret, secret.upper(), secret.lower()}:
        yield text
        for _ in range(2):
            escaped = [json.dumps(text, ensure_ascii=ascii_)[1:-1] for ascii_ in (False, True)]
            yield from escaped
            yield from (one.replace("/", "\\/") for one in escaped)
            yield escaped[0].replace("<", "\\u003c").replace(">", "\\u003e")
            text = escaped[1]


def traces(folder, secret):
    """The files in which the secret stands in any spelling."""
    wanted = [text.encode().lower() for text in spellings(secret)]
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes().lower()
            found += [path.name for one in wanted if one in data]
    return found


def note(text, hour=12, **rest):
    return {"text": text, "timestamp": f"2031-04-12T{hour:02}:00:00", **rest}


def fill(keeper, secret):
    """The secret in every place there is, among other things."""
    keeper.append([note("before"), note(f"Ada says: {secret}!"), note("behind")])
    keeper.append([note("meta", metadata={"said": [secret]}), note("keyed", metadata={"x": {secret: 1}})])
    keeper.append(
        [
            {"text": f"{secret} of old", "timestamp": "2030-01-01T09:00"},
            {"text": "old", "timestamp": "2030-01-01T10:00"},
        ]
    )
    folder = keeper.folder
    folder.replace("memory/archive/2030-01-01.md", folder.bytes_of("memory/2030-01-01.md"))
    folder.remove("memory/2030-01-01.md")
    keeper.replace_memory(f"# Facts\n\n- tea\n- {secret.replace(chr(10), chr(10) + '  ')}\n", was="")
    keeper.replace_memory(f"# {secret}\n\n- tea\n- milk, {secret.upper()}\n", was=keeper.memory_md())
    folder.replace(f"{MEMORY}.damaged-1", b"\xff" + secret.encode())
    folder.replace(f"{STATE}.damaged-1", json.dumps({"x": secret}).encode())
    folder.replace("index.db.damaged-1", b"\0" + secret.encode())
    (folder.path / "memory" / ".lgm-x.tmp").write_text(secret)
    keeper.write_state({"last": {"error": f"about {secret}"}, "run": 3})
    log(keeper).append(messages(secret))


def log(keeper):
    return SessionLog(keeper.folder.path, "t-1")


def messages(secret):
    call = {"name": "f", "args": {"x": secret, "y": {secret: 1}}, "id": "c"}
    inner = json.dumps({"x": secret})
    return [
        ("h1", HumanMessage("hello", id="h1")),
        ("h2", HumanMessage(f"I say {secret}.", id="h2")),
        ("a1", AIMessage([{"type": "text", "text": secret}], id="a1")),
        ("a2", AIMessage("", id="a2", tool_calls=[call])),
        ("a3", AIMessage("", id="a3", additional_kwargs={"function_call": {"name": "f", "arguments": inner}})),
        ("r1", ToolMessage(json.dumps({"r": inner}), tool_call_id="c", id="r1")),
        ("a4", AIMessage("good bye", id="a4")),
    ]


@pytest.mark.parametrize("kind", SECRETS)
def test_nothing_of_it_is_left_anywhere(keeper, kind):
    secret = SECRETS[kind]
    fill(keeper, secret)
    assert len(set(traces(keeper.folder.path, secret))) > 5
    assert keeper.forget(f"  {secret.upper()}\n") > 10
    assert traces(keeper.folder.path, secret) == []
    assert keeper.search(secret.split()[0]) == [] or kind in ("english", "lines")
    assert [row.entry.text for row in keeper.rows(LOG)] == ["before", "behind"]
    assert [row.entry.text for row in keeper.rows("memory/archive/2030-01-01.md")] == ["old"]
    assert "tea" in keeper.memory_md() and "milk" not in keeper.memory_md()
    assert keeper.state() == {"v": 1, "run": 3}
    assert keeper.index.problems() == [] and keeper.forget(secret) == 0


@pytest.mark.parametrize("kind", SECRETS)
def test_a_message_that_was_forgotten_is_not_logged_again_and_can_still_be_read(keeper, kind):
    secret = SECRETS[kind]
    log(keeper).append(messages(secret))
    keeper.append([note("something")])
    keeper.forget(secret)
    assert log(keeper).append(messages(secret)) == 0
    lines = [json.loads(line) for line in log(keeper).path.read_text().splitlines()]
    assert [line["id"] for line in lines] == [key for key, _ in messages(secret)]
    assert [line.get("forgotten", False) for line in lines] == [False, True, True, True, True, True, False]
    read = messages_from_dict([{"type": line["type"], "data": line["data"]} for line in lines])
    assert [one.content for one in read] == ["hello", "", "", "", "", "", "good bye"]
    assert read[5].tool_call_id == "c"


def test_lines_of_a_log_that_say_something_else_stay_as_they_are(keeper):
    log(keeper).append(messages("the secret"))
    keeper.append([note("x")])
    path = log(keeper).path
    path.write_bytes(
        path.read_bytes() + b'{"id": "torn", "data": {"content": "the sec\n' + b"\xff\xfe\n" + b'no "the secret\n'
    )
    before = path.read_bytes().split(b"\n")
    assert keeper.forget("the secret") == 6
    after = path.read_bytes().split(b"\n")
    assert [line for line in before if line in after] == [before[0], before[6], before[7], before[8], b""]


@pytest.mark.parametrize(
    "word", ["human", "content", "type", "fact", "thread", "lgm", "logged", "text", "tokens", "12:00"]
)
def test_the_words_of_the_formats_are_nobody_s_text(keeper, word):
    keeper.append([note("tea", thread="t-1", metadata={"a": 1})])
    log(keeper).append([("h", HumanMessage("hello")), ("a", AIMessage([{"type": "text", "text": "x"}], id="a"))])
    before = {path: path.read_bytes() for path in (keeper.folder.path / LOG, log(keeper).path)}
    assert keeper.forget(word) == 0
    assert {path: path.read_bytes() for path in before} == before


OURS = [{"by": "memory_save"}, {"by": "flush"}, *({"by": "rule", "kind": kind} for kind in get_args(Kind))]


@pytest.mark.parametrize("ours", OURS, ids=str)
@pytest.mark.parametrize("form", [str, str.upper])
def test_what_we_note_of_an_entry_is_nobody_s_text(keeper, ours, form):
    keeper.append(
        [note("Ada likes tea", metadata=ours), note("tea for two", metadata={**ours, "source": "Ada's book"})]
    )
    for word in {part for text in [*ours, *ours.values()] for part in [text, *text.split("_")] if len(part) > 2}:
        assert keeper.forget(form(word)) == 0, word
    assert keeper.forget(form("Ada's book")) == 1
    assert [row.entry.text for row in keeper.rows(LOG)] == ["Ada likes tea"]


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        ({"by": "Ada Lovelace"}, "ada lovelace"),
        ({"by": "阿达"}, "阿达"),
        ({"by": "Ада Лавлейс"}, "лавлейс"),
        ({"by": ["memory_save", "Ada"]}, "memory_save"),
        ({"by": "flush", "kind": "decision"}, "decision"),
        ({"kind": "decision"}, "decision"),
        ({"by": "rule", "kind": "a rule of Ada"}, "rule of Ada"),
        ({"source": "import from Ada"}, "import from Ada"),
        ({"source": {"by": "flush"}}, "flush"),
    ],
    ids=str,
)
def test_what_others_give_under_our_keys_is_their_text(keeper, theirs, text):
    keeper.append([note("tea", metadata=theirs), note("milk", metadata={"by": "memory_save"})])
    assert keeper.forget(text) == 1
    assert [row.entry.text for row in keeper.rows(LOG)] == ["milk"]


@pytest.mark.parametrize("text", ["t-2031", "2031", "msg-4711", "4711", "cp-9", "tool_result", "2031-04-12"])
def test_threads_messages_checkpoints_and_days_are_no_text(keeper, text):
    known = {"thread": "t-2031", "checkpoint": "cp-9", "messages": ["msg-4711"], "type": "tool_result"}
    keeper.append([note("tea", **known)])
    log(keeper).append([("msg-4711", AIMessage("hello", id="msg-4711"))])
    keeper.folder.replace(MEMORY, b"- milk\n")
    before = {path: path.read_bytes() for path in (keeper.folder.path / LOG, log(keeper).path)}
    assert keeper.forget(text) == 0
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", [LOG, "memory/archive/2031-04-12.md"])
def test_the_heading_of_a_ledger_stays_and_is_no_note(keeper, name, start, end):
    data = end.join([start + b"# 2031-04-12", b"", b"- tea on 2031-04-13", b"- milk", b"# 2031-04-13", b""])
    keeper.folder.replace(name, data)
    assert keeper.forget("2031-04-12") == 0
    assert keeper.folder.bytes_of(name) == data
    assert keeper.forget("2031") == 2, "a heading of another day is a person's"
    assert keeper.folder.bytes_of(name) == end.join([start + b"# 2031-04-12", b"", b"- milk", b""])


def test_a_text_over_several_lines_does_not_take_a_heading_of_ours_with_it(keeper):
    keeper.folder.replace(LOG, b"# 2031-04-12\nbegins here\n- tea\n")
    assert keeper.forget("2031-04-12 begins") == 0
    assert keeper.folder.bytes_of(LOG) == b"# 2031-04-12\nbegins here\n- tea\n"


def test_headings_of_days_that_we_wrote_into_the_curated_memory_stay_and_those_of_a_person_go(keeper):
    ours, theirs = heading_of(date(2031, 4, 12)), heading_of(date(2031, 4, 14))
    keeper.write_state({"written": [Block((ours,)).print]})
    text = f"{ours}\n\n- tea\n\n{theirs}\n\n- milk\n\n# Plans for 2031\n"
    keeper.replace_memory("- old\n" + text, was="")
    keeper.replace_memory(text, was=keeper.memory_md())
    assert keeper.forget("2031") == 4
    assert [line for line in keeper.memory_md().split("\n") if line] == [ours, "- tea", "- milk"]
    (version,) = keeper.folder.names("memory/history")
    assert ours in keeper.get(version) and theirs not in keeper.get(version)


@pytest.mark.parametrize(
    "text", ["gpt", "gpt-4o", "stop", "openai", "4711", "2031", "false", "fp_1", "web", "web_search", "helper"]
)
def test_what_programs_note_of_a_message_is_nobody_s_text(keeper, text):
    noted = {
        "model_name": "gpt-4o",
        "model_provider": "openai",
        "finish_reason": "stop",
        "system_fingerprint": "fp_1",
        "token_usage": {"total_tokens": 4711},
        "created_at": "2031-04-12T10:00:00",
    }
    usage = {"input_tokens": 4711, "output_tokens": 1, "total_tokens": 4712}
    call = {"name": "web_search", "args": {"q": "tea"}, "id": "c"}
    block = {"type": "tool_use", "name": "web_search", "input": {"q": "tea"}, "id": "c"}
    raw = {"function": {"name": "web_search", "arguments": "{}"}, "id": "c", "type": "function"}
    said = [
        ("h", HumanMessage("hello", additional_kwargs={"timestamp": "2031-04-12T09:00:00"})),
        ("a", AIMessage("hi", name="helper", response_metadata=noted, usage_metadata=usage)),
        ("b", AIMessage([block], tool_calls=[call], additional_kwargs={"tool_calls": [raw]})),
        ("r", ToolMessage("found", tool_call_id="c", name="web_search")),
    ]
    log(keeper).append(said)
    before = log(keeper).path.read_bytes()
    assert keeper.forget(text) == 0
    assert log(keeper).path.read_bytes() == before
    assert keeper.forget("tea") == 1


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("hello", name="Ada Lovelace"),
        HumanMessage([{"type": "json", "model": "Ada Lovelace"}]),
        AIMessage("hi", response_metadata={"citations": [{"model": "Ada Lovelace"}]}),
        AIMessage("hi", additional_kwargs={"reasoning_content": "of Ada Lovelace"}),
        AIMessage("", tool_calls=[{"name": "f", "args": {"name": "Ada Lovelace", "input": 1}, "id": "c"}]),
        AIMessage([{"type": "file", "name": "Ada Lovelace.pdf"}]),
    ],
    ids=str,
)
def test_what_people_and_models_say_beside_the_content_is_text(keeper, message):
    log(keeper).append([("m", message), ("n", AIMessage("Grace"))])
    assert keeper.forget("ada lovelace") == 1
    assert b"Lovelace" not in log(keeper).path.read_bytes() and b"Grace" in log(keeper).path.read_bytes()


@pytest.mark.parametrize("text", ["2031", "reason", "times", "print", "last_run", "upto", "f00dbeef", "x-1-2"])
def test_when_consolidation_ran_and_how_far_it_came_is_no_text(keeper, text):
    keeper.append([note("tea")])
    failed = {"at": "2031-04-12T09:00:00", "reason": "the model said Rosebud", "entry": "x-1-2", "times": 2}
    pending = {"print": "f00dbeef", "state": {"upto": {LOG: "x-1-2"}}}
    state = {"last_run": "2031-04-12T09:00:00", "written": ["f00dbeef"], "pending": pending, "failed": failed}
    keeper.write_state(state)
    assert keeper.forget(text) == 0 and keeper.state() == {"v": 1, **state}
    assert keeper.forget("rosebud") == 1 and "failed" not in keeper.state()


def test_only_entries_of_a_flush_say_how_far_a_thread_was_flushed(keeper):
    by = {"flush": "t-1", "rule": "t-2", "Ada Lovelace": "t-3"}
    keeper.append([note(who, thread=thread, messages=["m"], metadata={"by": who}) for who, thread in by.items()])
    keeper.forget("xyz")
    assert forgetting.flushed_upto(keeper) == {"t-1": ["m"], "t-2": ["m"]}


HAND = st.lists(
    st.sampled_from(
        [
            "- tea",
            "- the SECRET one",
            "plain secret",
            "* milk\r",
            "  and more",
            "# Secret",
            "# Head",
            "",
            "\udcff bytes",
            "x  ",
            "\tsecret",
        ]
    ),
    max_size=10,
)


@settings(max_examples=40)
@given(HAND, st.booleans())
def test_all_other_lines_stay_byte_for_byte(tmp_path, lines, bom):
    keeper = Keeper(tmp_path / "hand")
    data = (("\ufeff" if bom else "") + "\n".join(lines)).encode(errors="surrogateescape")
    keeper.folder.replace(MEMORY, data)
    keeper.forget("secret")
    after = (keeper.folder.bytes_of(MEMORY) or b"").split(b"\n")
    assert b"secret" not in b"\n".join(after).lower()
    rest = iter(data.split(b"\n"))
    assert all(line in rest for line in after if line), "lines that stay, stay in their order"
    if "secret" not in "".join(lines).lower():
        assert b"\n".join(after) == data


def test_a_text_that_goes_over_several_lines_of_a_person_is_found(keeper):
    keeper.folder.replace(MEMORY, b"one\nAda lives\nin the old\n\nmill house\nand likes it\ntwo\n")
    assert keeper.forget("lives in the old mill house and") == 1
    assert keeper.memory_md() == "one\ntwo\n"


def test_entries_that_say_it_only_together_stay(keeper):
    keeper.append([note("likes the dark"), note("mode of travel: train")])
    keeper.folder.replace(MEMORY, b"- the dark\n- mode\n* the dark\n  <b>\nmode\n")
    before = keeper.memory_md()
    assert keeper.forget("the dark mode") == 0
    assert keeper.memory_md() == before and len(keeper.rows(LOG)) == 2


def test_each_line_is_looked_at_a_few_times_however_many_there_are(keeper, monkeypatch):
    counts = []
    for size in (500, 2000):
        keeper.folder.replace(LOG, b"".join(b"- line %d\n# head\n" % n for n in range(size)) + b"- the secret\n")
        looked = [0]

        def told(one, looked=looked):
            looked[0] += 1
            return one.text

        def places(entries, looked=looked):
            looked[0] += len(entries)
            return {place for one in entries for place in range(one.first - 1, one.last)}

        monkeypatch.setattr(forgetting, "_told", told)
        monkeypatch.setattr(forgetting, "_places", places)
        assert keeper.forget("the secret") == 1
        counts.append(looked[0] / size)
    assert counts[1] < 1.1 * counts[0] < 6


# By id


def test_an_id_takes_out_its_entry_and_whoever_says_the_same(keeper):
    (one, *_) = keeper.append([note("dark mode", id="x-1"), note("prefers dark mode", id="x-11"), note("x-1 is an id")])
    keeper.replace_memory("- Dark mode.\n- dark mode is good\n", was="")
    lines = (keeper.folder.path / LOG).read_text()
    assert keeper.forget("x-1") == 2
    assert (keeper.folder.path / LOG).read_text() == lines.replace(lines_of([one]), "")
    assert keeper.memory_md() == "- dark mode is good\n"
    assert [hit.text for hit in keeper.search("dark mode")].count("dark mode") == 0


def test_the_id_of_a_line_by_hand_takes_out_that_line(keeper):
    keeper.folder.replace(LOG, b"- tea\n- ok\n- milk\n")
    id_ = keeper.rows(LOG)[1].entry.id
    assert keeper.forget(id_) == 1
    assert keeper.folder.bytes_of(LOG) == b"- tea\n- milk\n"


@pytest.mark.parametrize(
    "text", ["", " ", "a", "ab", " b ", "я", "да", "我", "!!!", "。。。", "--", "\n", "\udcff\udcff"]
)
def test_what_stands_nearly_everywhere_is_refused(keeper, text):
    with pytest.raises(WorkspaceError, match="short"):
        keeper.forget(text)
    keeper.append([note("tea, ab, да, 我"), note(text + " x")])
    before = (keeper.folder.path / LOG).read_bytes()
    with pytest.raises(WorkspaceError, match="3 characters"):
        keeper.forget(text)
    assert (keeper.folder.path / LOG).read_bytes() == before


@pytest.mark.parametrize("text", ["tea", "王芳", "дом", "C++", "ab\u0301c"])
def test_a_short_word_may_be_forgotten(keeper, text):
    keeper.append([note(f"this is {text}"), note("other")])
    assert keeper.forget(text) == 1
    assert [row.entry.text for row in keeper.rows(LOG)] == ["other"]


# The watermark


@settings(max_examples=25)
@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(0, 7))
def test_what_is_pending_stays_so_and_what_is_done_stays_done(tmp_path, secret, upto):
    keeper = Keeper(tmp_path / f"{len(list(tmp_path.iterdir()))}")
    added = keeper.append([note(f"{'secret' if is_it else 'plain'} {n}", n) for n, is_it in enumerate(secret)])
    upto = min(upto, len(added) - 1)
    keeper.write_state({"upto": {LOG: added[upto].id, "memory/2030-01-01.md": "y"}, "recent": {LOG: [added[upto].id]}})
    waiting = [row.entry.text for row in pending(keeper, keeper.state()["upto"])]
    keeper.forget("secret")
    left = [row.entry.text for row in pending(keeper, keeper.state()["upto"])]
    assert left == [text for text in waiting if "secret" not in text]
    assert keeper.state()["upto"]["memory/2030-01-01.md"] == "y"
    keeper.close()


def test_a_watermark_by_hand_moves_too(keeper):
    keeper.folder.replace(LOG, b"- tea\n- the secret\n- milk\n")
    keeper.write_state({"upto": {LOG: keeper.rows(LOG)[1].entry.id}})
    keeper.forget("the secret")
    assert [row.entry.text for row in pending(keeper, keeper.state()["upto"])] == ["milk"]


# When things are in the way


def test_files_of_others_stay_and_are_told(keeper, caplog):
    keeper.append([note("the secret")])
    (keeper.folder.path / "memory" / "backup.md~").write_text("the SECRET")
    (keeper.folder.path / ".MEMORY.md.swp").write_text("nothing")
    (keeper.folder.path / "threads.db").write_text("the secret")
    assert keeper.forget("the secret") == 1
    assert "backup.md~" in caplog.text and "swp" not in caplog.text and "threads" not in caplog.text


def test_a_namespace_forgets_for_itself(tmp_path):
    keepers = [Keeper(tmp_path / "ws", namespace) for namespace in ((), ("ada",), ("bob",), ("ada", "x"))]
    for keeper in keepers:
        keeper.append([note("the secret")])
    assert keepers[0].forget("the secret") == 1
    assert [len(keeper.search("secret")) for keeper in keepers] == [0, 1, 1, 1]
    assert keepers[1].forget("the secret") == 1
    assert [len(keeper.search("secret")) for keeper in keepers] == [0, 0, 1, 1]


def test_a_journal_that_a_crash_left_is_forgotten_too(keeper, monkeypatch):
    keeper.append([note("before")])

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(keeper.folder), "append", crash)
        keeper.append([note("the secret thing")])
    assert keeper.forget("the secret") == 1
    assert traces(keeper.folder.path, "the secret") == []


def test_a_reader_of_the_index_is_waited_for(keeper):
    keeper.append([note("the secret"), note("other")])
    reads, go = threading.Event(), threading.Event()

    def read():
        with keeper.reading() as db:
            db.execute("SELECT * FROM entries").fetchone()
            reads.set()
            go.wait(30)

    thread = threading.Thread(target=read)
    thread.start()
    reads.wait(30)
    threading.Timer(0.3, go.set).start()
    assert keeper.forget("the secret") == 1
    thread.join()
    assert traces(keeper.folder.path, "the secret") == []


@pytest.mark.parametrize("damage", [b"", b"garbage" * 5000])
def test_a_damaged_index_does_not_keep_it(keeper, damage):
    keeper.append([note("the secret"), note("other")])
    keeper.close()
    data = keeper.index.path.read_bytes()
    keeper.index.path.write_bytes(damage + data[len(damage) :] if damage else damage)
    assert keeper.forget("the secret") == 1
    assert traces(keeper.folder.path, "the secret") == []
    assert [hit.text for hit in keeper.search("other")] == ["other"]


def test_an_index_that_cannot_be_cleaned_is_told_and_the_files_are_clean(keeper, monkeypatch):
    keeper.append([note("the secret"), note("other")])

    def fails():
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(keeper.index, "forget", fails)
    with pytest.raises(WorkspaceError, match="locked"):
        keeper.forget("the secret")
    assert b"secret" not in keeper.folder.bytes_of(LOG)
    monkeypatch.undo()
    keeper.forget("the secret")
    assert traces(keeper.folder.path, "the secret") == []


def test_a_crash_in_the_middle_is_made_good_by_forgetting_once_more(keeper, monkeypatch):
    fill(keeper, "the secret")
    real, left = type(keeper.folder).replace, [3]

    def replace(self, name, data):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        real(self, name, data)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(keeper.folder), "replace", replace)
        keeper.forget("the secret")
    keeper.forget("the secret")
    assert traces(keeper.folder.path, "the secret") == []


# Summaries


@pytest.mark.parametrize("kind", SECRETS)
def test_summaries_that_hold_it_are_dropped_from_every_cache(tmp_path, kind):
    secret = SECRETS[kind]
    path = tmp_path / "cache.db"
    for cache in (FileCache(path), ProcessCache(), Guarded(FileCache(path)), Guarded(ProcessCache())):
        for number in range(30):
            text = f"{number} {secret} " * 200 if number % 3 else f"{number} nothing" * 200
            cache.put(f"d{number}", text, boundary=f"b{number}")
        assert cache.forget(holding(secret)) == 20
        assert [cache.get(f"d{number}") is None for number in range(30)] == [bool(number % 3) for number in range(30)]
        assert cache.covering(["b1", "b3"]).keys() == {"b3"}
        assert cache.forget(holding(secret)) == 0
        assert traces(tmp_path, secret) == []


def test_what_stands_for_a_reply_that_was_written_is_nobody_s_text(keeper):
    keeper.append([note("tea")])
    FileCache(keeper.folder.workspace / "cache.db").put("d", WRITTEN)
    assert [keeper.forget_everywhere(word) for word in ("written", "(written)", "reply")] == [0, 0, 0]


def test_a_cache_that_cannot_forget_says_so(tmp_path):
    (tmp_path / "cache.db").mkdir()
    with pytest.raises(Exception, match=r"cache\.db"):
        Guarded(FileCache(tmp_path / "cache.db")).forget(holding("the secret"))
    assert [one.name for one in tmp_path.iterdir()] == ["cache.db"]
