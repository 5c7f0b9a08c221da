"""A model server on the loopback interface that speaks OpenAI's chat API over real HTTP.

It answers every request from a script and remembers what it was sent. A request longer than `limit` is refused in one
of the forms servers use for that (`FORMS`). It runs in threads of its own, one a connection, all of which have ended
when the `with` block is left; a script that raised there shows its error.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    body: Json
    headers: dict[str, str]
    """Names in lower case."""

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def max_tokens(self) -> int | None:
        return self.body.get("max_tokens") or self.body.get("max_completion_tokens")

    @cached_property
    def tokens(self) -> int:
        """The size of messages and tools: a token for every four characters."""
        return count(json.dumps([self.messages, self.body.get("tools", [])], ensure_ascii=False))


@dataclass(frozen=True)
class Call:
    """A tool call of a reply. `arguments` as a string goes out as it stands, valid or not."""

    name: str
    arguments: Json | str
    id: str = "call_1"

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """An answer of the model. `delay` is before the headers, `pause` before each chunk of a stream, in seconds."""

    text: str = ""
    calls: Sequence[Call] = ()
    usage: Json | bool = True
    """False leaves it out, a dictionary is sent as it stands."""
    finish: str | None = None
    delay: float = 0.0
    pause: float = 0.0
    cut_after: int | None = None
    """The stream breaks off behind so many chunks, without the end HTTP asks for."""


@dataclass(frozen=True)
class Fault:
    """An answer that is no reply: any status and body."""

    status: int
    body: Json | str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Events:
    """A stream of these events and nothing else, whatever the request asked for."""

    events: Sequence[Json | str] = ()


@dataclass(frozen=True)
class Reset:
    """The connection is reset instead of an answer."""


Answer = Reply | Fault | Events | Reset
Script = str | Answer | Callable[[Request], "str | Answer"]


def count(text: str) -> int:
    return max(1, len(text) // 4)


def error(message: str, kind: str = "invalid_request_error", code: Any = None, **more: Any) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


RATE_LIMITED = Fault(
    429,
    error("Rate limit reached for scripted on tokens per min (TPM): Limit 30000, Requested 42000.", "tokens"),
    {"retry-after": "7"},
)
UNAUTHORISED = Fault(401, error("Incorrect API key provided: x.", code="invalid_api_key"))
FAILED = Fault(500, error("The server had an error while processing your request.", "server_error"))
UNAVAILABLE = Fault(503, error("The engine is currently overloaded, please try again later.", "server_error"))
BROKEN_JSON = Fault(200, '{"id": "chatcmpl-1", "choices": [{"mess')
EMPTY_STREAM = Events()


def _openai(asked: Request, limit: int) -> Answer:
    text = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {asked.tokens} "
        "tokens. Please reduce the length of the messages."
    )
    return Fault(400, error(text, code="context_length_exceeded", param="messages"))


def _openai_sum(asked: Request, limit: int) -> Answer:
    room = asked.max_tokens or 0
    text = (
        f"This model's maximum context length is {limit} tokens. However, you requested {asked.tokens + room} tokens "
        f"({asked.tokens} in the messages, {room} in the completion). Please reduce the length of the messages or "
        "completion."
    )
    return Fault(400, error(text, code="context_length_exceeded", param="messages"))


def _openai_window(asked: Request, limit: int) -> Answer:
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return Fault(400, error(text, code="context_length_exceeded", param="input"))


def _llama_cpp_body(asked: Request, limit: int) -> Json:
    text = "the request exceeds the available context size, try increasing it"
    return {
        "error": {
            "code": 400,
            "message": text,
            "type": "exceed_context_size_error",
            "n_prompt_tokens": asked.tokens,
            "n_ctx": limit,
        }
    }


def _llama_cpp(asked: Request, limit: int) -> Answer:
    return Fault(400, _llama_cpp_body(asked, limit))


def _vllm(asked: Request, limit: int) -> Answer:
    text = (
        f"This model's maximum context length is {limit} tokens. However, your request has {asked.tokens} input tokens."
        " Please reduce the length of the input messages."
    )
    return Fault(400, {"object": "error", "message": text, "type": "BadRequestError", "param": None, "code": 400})


def _vllm_sum(asked: Request, limit: int) -> Answer:
    room = asked.max_tokens or 0
    text = (
        f"'max_tokens' or 'max_completion_tokens' is too large: {room}. This model's maximum context length is {limit} "
        f"tokens and your request has {asked.tokens} input tokens ({room} > {limit} - {asked.tokens})."
    )
    return Fault(400, error(text, "BadRequestError", 400))


def _anthropic(asked: Request, limit: int) -> Answer:
    return Fault(400, {"type": "error"} | error(f"prompt is too long: {asked.tokens} tokens > {limit} maximum"))


def _anthropic_sum(asked: Request, limit: int) -> Answer:
    text = (
        f"input length and `max_tokens` exceed context limit: {asked.tokens} + {asked.max_tokens or 0} > {limit}, "
        "decrease input length or `max_tokens` and try again"
    )
    return Fault(400, {"type": "error"} | error(text))


def _too_large(asked: Request, limit: int) -> Answer:
    body = {"type": "request_too_large", "message": "Request exceeds the maximum size"}
    return Fault(413, {"type": "error", "error": body})


def _proxy(asked: Request, limit: int) -> Answer:
    page = "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"
    return Fault(413, page, {"content-type": "text/html"})


def _tgi(asked: Request, limit: int) -> Answer:
    text = (
        f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {asked.tokens} `inputs`"
        f" tokens and {asked.max_tokens or 0} `max_new_tokens`"
    )
    return Fault(422, {"error": text, "error_type": "validation"})


def _in_stream(asked: Request, limit: int) -> Answer:
    """Says 200 before it has looked; without streaming it is an ordinary refusal."""
    body = _llama_cpp_body(asked, limit)
    return Events([body]) if asked.stream else Fault(400, body)


def _empty_stream(asked: Request, limit: int) -> Answer:
    return EMPTY_STREAM if asked.stream else _vllm(asked, limit)


def _silent(asked: Request, limit: int) -> Answer:
    return Fault(400)


FORMS: dict[str, Callable[[Request, int], Answer]] = {
    "openai": _openai,
    "openai sum": _openai_sum,
    "openai window": _openai_window,
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
    "vllm sum": _vllm_sum,
    "anthropic": _anthropic,
    "anthropic sum": _anthropic_sum,
    "413": _too_large,
    "413 of a proxy": _proxy,
    "422": _tgi,
    "in the stream": _in_stream,
    "empty stream": _empty_stream,
    "silent": _silent,
}
"""How a request that is too long is refused. The sums count `max_tokens` in, and so does the 422."""

SUMS = {"openai sum", "vllm sum", "anthropic sum", "422"}


class ModelServer:
    """Answers with `reply`: one for every request, a list (its last one again and again) or a function."""

    def __init__(
        self, reply: Script | Sequence[Script] = "ok", *, limit: int | None = None, form: str = "openai"
    ) -> None:
        self.reply, self.limit, self.form = reply, limit, form
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        """What scripts raised; the first is raised again when the server closes."""
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="model-server")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def last(self) -> Request:
        return self.requests[-1]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.hang_up()
        self._http.server_close()
        self._thread.join()
        if self.errors and kind is None:
            raise self.errors[0]

    def answer(self, request: Request) -> Answer:
        with self._lock:
            turn = len(self.requests)
            self.requests.append(request)
        if self.limit is not None and self._size(request) > self.limit:
            return FORMS[self.form](request, self.limit)
        try:
            reply = self._scripted(request, turn)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.errors.append(error)
            return Fault(500, str(error))
        return Reply(reply) if isinstance(reply, str) else reply

    def wait(self, seconds: float) -> None:
        """Sleeps, unless the server is about to close."""
        self._stopping.wait(seconds)

    def _size(self, request: Request) -> int:
        return request.tokens + (self.form in SUMS) * (request.max_tokens or 0)

    def _scripted(self, request: Request, turn: int) -> str | Answer:
        reply: Any = self.reply
        if isinstance(reply, list | tuple):
            reply = reply[min(turn, len(reply) - 1)]
        return reply(request) if callable(reply) else reply

    def _handler(self) -> type[_Handler]:
        return type("Handler", (_Handler,), {"model": self})


class _Http(ThreadingHTTPServer):
    """Joins its threads when it closes, and hangs up on clients that keep a connection."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
            request.close()
        else:
            super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith("/chat/completions"):
            self._send(Fault(404, error(f"There is nothing at {self.path}.")))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(json.loads(body), headers)
        answer = self.model.answer(request)
        if isinstance(answer, Reset):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif isinstance(answer, Fault):
            self._send(answer)
        elif isinstance(answer, Events):
            self._stream(answer.events)
        else:
            self._reply(request, answer)

    def log_message(self, *_: object) -> None:
        pass

    def _reply(self, request: Request, reply: Reply) -> None:
        self.model.wait(reply.delay)
        if request.stream:
            events = list(_chunks(request, reply))
            self._stream(events[: reply.cut_after], pause=reply.pause, ends=reply.cut_after is None)
        else:
            self._send(Fault(200, _completion(request, reply)))

    def _send(self, answer: Fault) -> None:
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        data = text.encode()
        self.send_response(answer.status)
        headers = {"content-type": "application/json", "content-length": str(len(data)), "connection": "close"}
        for name, value in (headers | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Sequence[Json | str], *, pause: float = 0.0, ends: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()
        for event in [*events, "[DONE]"] if ends else events:
            self.model.wait(pause)
            self._chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode())
        if ends:
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _usage(request: Request, reply: Reply) -> Json | None:
    if isinstance(reply.usage, dict):
        return reply.usage
    written = count(reply.text + "".join(call.name + call.json for call in reply.calls))
    used = {
        "prompt_tokens": request.tokens,
        "completion_tokens": written,
        "total_tokens": request.tokens + written,
    }
    return used if reply.usage else None


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _tool_call(call: Call, arguments: str) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _completion(request: Request, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [_tool_call(call, call.json) for call in reply.calls]
    usage = _usage(request, reply)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply)}],
    } | ({"usage": usage} if usage else {})


def _chunks(request: Request, reply: Reply) -> Iterator[Json]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": request.body["model"]}
    for delta in _deltas(reply):
        yield common | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield common | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]}
    usage = _usage(request, reply)
    if usage and (request.body.get("stream_options") or {}).get("include_usage"):
        yield common | {"choices": [], "usage": usage}


def _deltas(reply: Reply) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for piece in re.findall(r"\S+\s*|\s+", reply.text):
        yield {"content": piece}
    for index, call in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index, **_tool_call(call, "")}]}
        for start in range(0, len(call.json), 7):
            yield {"tool_calls": [{"index": index, "function": {"arguments": call.json[start : start + 7]}}]}
