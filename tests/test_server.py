"""The loopback server is driven by a real client, so what the tests see is what a program would see."""

import gc
import socket
import threading
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import (
    OpenAIAPIError,
    OpenAIConnectionError,
    OpenAIContextOverflowError,
    OpenAIInvalidRequestError,
    OpenAIRateLimitError,
    OpenAITimeoutError,
)

from tests.support import server as s
from tests.support.server import Call, ModelServer, Reply

WAYS = ["invoke", "ainvoke", "stream", "astream"]
LONG = "word " * 400


@tool
def dock_list(pier: str) -> str:
    """Lists the docks of a pier."""
    return pier


def client(server: ModelServer, **options: Any) -> ChatOpenAI:
    options = {"model": "scripted", "max_retries": 0, "stream_usage": True, "timeout": 10} | options
    return ChatOpenAI(base_url=server.url, api_key="x", **options)


async def ask(model: Any, way: str, text: str = "hello") -> AIMessage:
    """The whole answer, whichever way it is asked for."""
    if way == "invoke":
        return model.invoke(text)
    if way == "ainvoke":
        return await model.ainvoke(text)
    chunks = list(model.stream(text)) if way == "stream" else [chunk async for chunk in model.astream(text)]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole


@pytest.mark.parametrize("way", WAYS)
async def test_a_text_arrives_with_its_usage(way: str) -> None:
    with ModelServer("Pier four is free.") as server:
        message = await ask(client(server, max_tokens=99), way)
    assert message.text == "Pier four is free."
    usage = message.usage_metadata
    assert usage and usage["input_tokens"] == server.last.tokens > 0 and usage["output_tokens"] == 4
    assert message.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("way", WAYS)
async def test_usage_can_be_left_out_or_given(way: str) -> None:
    given = {"prompt_tokens": 5000, "completion_tokens": 7, "total_tokens": 5007}
    with ModelServer([Reply("a", usage=False), Reply("a", usage=given)]) as server:
        model = client(server)
        assert not (await ask(model, way)).usage_metadata
        usage = (await ask(model, way)).usage_metadata
    assert usage and usage["input_tokens"] == 5000


@pytest.mark.parametrize("way", WAYS)
async def test_several_tool_calls_arrive_whole_however_they_were_cut(way: str) -> None:
    calls = [Call("dock_list", {"pier": "four, at the far end"}, "c1"), Call("dock_list", {"pier": "五"}, "c2")]
    with ModelServer(Reply("Let me look.", calls)) as server:
        message = await ask(client(server).bind_tools([dock_list]), way)
    assert [call["args"]["pier"] for call in message.tool_calls] == ["four, at the far end", "五"]
    assert [call["id"] for call in message.tool_calls] == ["c1", "c2"]
    assert message.text == "Let me look."
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert server.last.tools == ["dock_list"]


def test_arguments_that_are_no_json_arrive_as_an_invalid_call() -> None:
    with ModelServer(Reply(calls=[Call("dock_list", '{"pier": ')])) as server:
        message = client(server).bind_tools([dock_list]).invoke("hello")
    assert [call["name"] for call in message.invalid_tool_calls] == ["dock_list"]


async def test_requests_are_recorded_as_they_arrived() -> None:
    with ModelServer(lambda request: f"{len(request.messages)} messages") as server:
        model = client(server, max_tokens=77)
        assert (await ask(model, "invoke")).text == "1 messages"
        await ask(model, "astream", "again")
    first, last = server.requests
    assert first.messages == [{"role": "user", "content": "hello"}]
    assert (first.stream, last.stream) == (False, True)
    assert first.max_tokens == 77
    assert first.headers["authorization"] == "Bearer x"
    assert last.body["stream_options"] == {"include_usage": True}


def test_the_last_reply_of_a_script_repeats() -> None:
    with ModelServer(["one", "two"]) as server:
        assert [client(server).invoke("hello").text for _ in range(3)] == ["one", "two", "two"]


def test_a_stream_comes_in_pieces() -> None:
    with ModelServer("one two three") as server:
        pieces = [chunk.text for chunk in client(server).stream("hello") if chunk.text]
    assert pieces == ["one ", "two ", "three"]


STATUSES = {"413": 413, "413 of a proxy": 413, "422": 422}
STREAMED: dict[str, type[Exception]] = {"in the stream": openai.APIError, "empty stream": ValueError}


@pytest.mark.parametrize("way", ["invoke", "astream"])
@pytest.mark.parametrize("form", s.FORMS)
async def test_a_request_over_the_limit_is_refused_in_the_chosen_form(form: str, way: str) -> None:
    with ModelServer(limit=200, form=form) as server:
        model = client(server, max_tokens=50)
        assert (await ask(model, way)).text == "ok"
        with pytest.raises(Exception) as caught:
            await ask(model, way, LONG)
    error = caught.value
    if way == "astream" and form in STREAMED:
        assert type(error) is STREAMED[form]
        return
    assert isinstance(error, openai.APIStatusError) and error.status_code == STATUSES.get(form, 400)
    # Whether an integration calls it an overflow depends on words in its text, so most arrive as any bad request does.
    assert isinstance(error, OpenAIContextOverflowError | OpenAIInvalidRequestError) == (form not in STATUSES)
    assert isinstance(error, OpenAIContextOverflowError) or form != "anthropic"


def test_the_sums_count_max_tokens_in() -> None:
    with ModelServer(limit=200, form="openai sum") as server:
        assert client(server).invoke("hello").text == "ok"
        with pytest.raises(openai.BadRequestError, match=r"you requested \d+ tokens \(\d+ in the messages, 500 in the"):
            client(server, max_tokens=500).invoke("hello")


@pytest.mark.parametrize("way", ["invoke", "astream"])
@pytest.mark.parametrize(
    "answer, kind",
    [
        (s.RATE_LIMITED, OpenAIRateLimitError),
        (s.UNAUTHORISED, openai.AuthenticationError),
        (s.FAILED, OpenAIAPIError),
        (s.UNAVAILABLE, OpenAIAPIError),
        (s.BROKEN_JSON, ValueError),
        (s.EMPTY_STREAM, ValueError),
        (s.Reset(), OpenAIConnectionError),
    ],
    ids=str,
)
async def test_other_failures_arrive_as_the_client_knows_them(answer: s.Answer, kind: type, way: str) -> None:
    with ModelServer(answer) as server, pytest.raises(kind):
        await ask(client(server), way)


def test_a_rate_limit_names_the_time_to_wait() -> None:
    with ModelServer(s.RATE_LIMITED) as server, pytest.raises(openai.RateLimitError) as caught:
        client(server).invoke("hello")
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_a_stream_that_breaks_off_is_a_connection_error(way: str) -> None:
    with ModelServer(Reply("one two three four", cut_after=3)) as server, pytest.raises(OpenAIConnectionError):
        await ask(client(server), way)


@pytest.mark.parametrize("way", ["invoke", "astream"])
async def test_a_slow_answer_outlasts_the_client_and_not_the_server(way: str) -> None:
    with ModelServer(Reply("late", delay=60)) as server, pytest.raises(OpenAITimeoutError):
        await ask(client(server, timeout=0.1), way)


async def test_a_stream_may_hang_in_the_middle() -> None:
    seen: list[AIMessageChunk] = []
    with ModelServer(Reply("one two three", pause=60)) as server, pytest.raises(OpenAITimeoutError):
        async for chunk in client(server, timeout=0.1).astream("hello"):
            seen.append(chunk)
    assert not seen


def test_many_clients_are_answered_at_once() -> None:
    meeting = threading.Barrier(6)

    def together(request: s.Request) -> str:
        meeting.wait(10)
        return request.messages[-1]["content"]

    with ModelServer(together) as server:
        answers = client(server).batch([[HumanMessage(str(number))] for number in range(6)])
    assert [answer.text for answer in answers] == list("012345")


def test_what_a_script_raises_is_raised_when_the_server_closes() -> None:
    def wrong(request: s.Request) -> str:
        raise AssertionError("not what was expected")

    def talk() -> None:
        with ModelServer(wrong) as server, pytest.raises(openai.InternalServerError):
            client(server).invoke("hello")

    with pytest.raises(AssertionError, match="not what was expected"):
        talk()


def test_nothing_is_left_behind_not_even_with_a_client_that_keeps_its_connection() -> None:
    before = set(threading.enumerate())
    with ModelServer() as server:
        port = int(server.url.rsplit(":", 1)[1].split("/")[0])
        idle = socket.create_connection(("127.0.0.1", port))
        client(server).invoke("hello")
    assert set(threading.enumerate()) <= before
    assert idle.recv(1) == b""
    idle.close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass
    gc.collect()
