"""Errors of every client at hand, real ones where a client is installed, and what must not be taken for an overflow."""

import asyncio
import sys
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError, ModelTimeoutError
from langchain_openai import ChatOpenAI

from langgraph_memory.overflow import CODES, Overflow, overflow_of
from tests.support import server as s
from tests.support.server import ModelServer

WAYS = ["invoke", "ainvoke", "stream", "astream"]
LONG = "word " * 400


async def failure(answer: s.Script = "ok", way: str = "invoke", **options: Any) -> Exception:
    """What a call of a real client raises for a long request."""
    with ModelServer(answer, **options) as server:
        model = ChatOpenAI(base_url=server.url, api_key="x", model="m", max_retries=0, max_tokens=50, timeout=5)
        try:
            await _ask(model, way)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
            return error
    raise AssertionError("the call did not fail")


async def _ask(model: Any, way: str) -> None:
    if way == "invoke":
        model.invoke(LONG)
    elif way == "ainvoke":
        await model.ainvoke(LONG)
    elif way == "stream":
        list(model.stream(LONG))
    else:
        _ = [chunk async for chunk in model.astream(LONG)]


class Refused(Exception):
    """As clients raise it: a status, and the body the server sent."""

    def __init__(self, text: str, status: int | None = 400, body: Any = None) -> None:
        super().__init__(text)
        self.status_code, self.body = status, body


def http_of(client: Any) -> Any:
    """The HTTP library a client was built on, by whichever name."""
    names = [kind.__module__.split(".")[0] for kind in client.DefaultHttpxClient.__mro__]
    return sys.modules[next(name for name in names if name.startswith("httpx"))]


def certain(error: BaseException) -> bool:
    found = overflow_of(error)
    return found is not None and found.certain


# Real clients


NAMED = {"openai", "openai sum", "llama.cpp", "vllm", "vllm sum", "anthropic", "anthropic sum", "422"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", sorted(s.FORMS.keys() - {"silent", "empty stream"}))
async def test_every_form_of_a_real_refusal_is_recognised(form: str, way: str) -> None:
    found = overflow_of(await failure(way=way, limit=200, form=form))
    assert found is not None and found.certain
    if form in NAMED:
        assert found.limit == 200 and found.prompt == 509
        assert found.requested == (559 if form in s.SUMS else 509)
        assert found.completion == (50 if form in s.SUMS else None)
    assert not found.completion_is_to_blame


@pytest.mark.parametrize("way", ["invoke", "astream"])
@pytest.mark.parametrize("form", ["openai sum", "vllm sum", "anthropic sum", "422"])
async def test_a_completion_that_is_too_large_is_told_from_a_prompt_that_is(form: str, way: str) -> None:
    found = overflow_of(await failure(way=way, limit=540, form=form))
    assert found == Overflow(True, limit=540, requested=559, prompt=509, completion=50)
    assert found.completion_is_to_blame


@pytest.mark.parametrize("way", ["stream", "astream"])
async def test_an_empty_stream_is_a_possible_overflow(way: str) -> None:
    assert overflow_of(await failure(way=way, limit=200, form="empty stream")) == Overflow(certain=False)


@pytest.mark.parametrize("way", ["invoke", "astream"])
async def test_a_refusal_without_a_word_is_a_possible_overflow(way: str) -> None:
    assert overflow_of(await failure(way=way, limit=200, form="silent")) == Overflow(certain=False)


@pytest.mark.parametrize("way", ["invoke", "astream"])
@pytest.mark.parametrize(
    "answer",
    [
        s.RATE_LIMITED,
        s.UNAUTHORISED,
        s.FAILED,
        s.UNAVAILABLE,
        s.Reset(),
        s.Fault(429, s.error("Request too large for m on tokens per min (TPM): Limit 30000, Requested 34000.")),
        s.Fault(413, s.error("Request too large for model m on tokens per minute (TPM): Limit 6000", "tokens")),
        s.Fault(400, s.error("max_tokens is too large: 99999. This model supports at most 4096 completion tokens.")),
        s.Fault(400, s.error("The response was filtered", code="content_filter")),
        s.Fault(404, s.error("The model `m` does not exist", code="model_not_found")),
    ],
    ids=str,
)
async def test_other_real_failures_are_none(answer: s.Answer, way: str) -> None:
    assert overflow_of(await failure(answer, way)) is None


async def test_a_broken_answer_is_none_and_a_broken_stream_only_possible() -> None:
    assert overflow_of(await failure(s.BROKEN_JSON)) is None
    assert overflow_of(await failure(s.BROKEN_JSON, "astream")) == Overflow(certain=False)


async def test_the_code_counts_where_the_text_does_not_say_it() -> None:
    fault = s.Fault(400, s.error("Please shorten it.", code="context_length_exceeded"))
    assert certain(await failure(fault, "astream"))


# Exceptions of other clients


def test_anthropic_refusals_are_recognised() -> None:
    anthropic = pytest.importorskip("anthropic")
    library = http_of(anthropic)
    request = library.Request("POST", "https://example.invalid")

    def refusal(status: int, kind: str, text: str) -> Exception:
        body = {"type": "error", "error": {"type": kind, "message": text}}
        response = library.Response(status, request=request, json=body)
        types = {413: anthropic.APIStatusError, 400: anthropic.BadRequestError}
        return types.get(status, anthropic.APIStatusError)(str(body), response=response, body=body)

    found = overflow_of(refusal(400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"))
    assert found == Overflow(True, limit=200_000, requested=208_310, prompt=208_310)
    text = "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length"
    found = overflow_of(refusal(400, "invalid_request_error", text))
    assert found == Overflow(True, 200_000, 242_959, 178_959, 64_000)
    assert found.completion_is_to_blame
    assert certain(refusal(413, "request_too_large", "Request exceeds the maximum size"))
    assert certain(refusal(413, "invalid_request_error", "Request size exceeds model context window"))
    # An error event of a stream carries the status of its start.
    assert certain(refusal(200, "invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"))
    assert overflow_of(refusal(200, "overloaded_error", "Overloaded")) is None
    text = "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for this model"
    assert overflow_of(refusal(400, "invalid_request_error", text)) is None


def test_google_refusals_are_recognised() -> None:
    chat = pytest.importorskip("langchain_google_genai.chat_models")
    errors = pytest.importorskip("google.genai.errors")

    def refusal(status: int, text: str, name: str = "INVALID_ARGUMENT") -> Exception:
        raw = errors.ClientError(status, {"error": {"code": status, "message": text, "status": name}})
        with pytest.raises(Exception) as caught:
            chat._handle_client_error(raw, {"model": "m"})
        return caught.value

    error = refusal(400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).")
    assert isinstance(error, ContextOverflowError)
    assert overflow_of(error) == Overflow(True, 1_048_575, 1_196_265, 1_196_265)
    error = refusal(
        400, "Unable to submit request because the input token count is 32825 but model only supports up to 32768."
    )
    assert not isinstance(error, ContextOverflowError)
    assert overflow_of(error) == Overflow(True, 32_768, 32_825, 32_825)
    assert certain(refusal(400, "Request payload size exceeds the limit: 20971520 bytes."))
    assert overflow_of(refusal(400, "Request payload size exceeds the limit: 20971520 bytes.")) == Overflow(True)
    # The integration calls anything with "token limit" an overflow, even what is over in a minute.
    error = refusal(429, "You exceeded the token limit per minute.", "RESOURCE_EXHAUSTED")
    assert isinstance(error, ContextOverflowError) and overflow_of(error) is None
    assert overflow_of(refusal(400, "Invalid value at 'contents'.")) is None
    assert overflow_of(refusal(429, "Quota exceeded for input tokens per day.")) is None


def test_bedrock_refusals_are_recognised_with_the_status_and_in_the_stream() -> None:
    class ClientError(Exception):
        def __init__(self, response: dict[str, Any], operation: str) -> None:
            error = response["Error"]
            super().__init__(
                f"An error occurred ({error['Code']}) when calling the {operation} operation: {error['Message']}"
            )
            self.response = response

    def refusal(code: str, text: str, **status: int) -> Exception:
        return ClientError({"Error": {"Code": code, "Message": text}, "ResponseMetadata": status}, "Converse")

    long = "Input is too long for requested model."
    assert certain(refusal("ValidationException", long, HTTPStatusCode=400))
    assert certain(refusal("validationException", f"The model returned the following errors: {long}"))
    nova = "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."
    assert certain(refusal("validationException", f"The model returned the following errors: {nova}"))
    wait = "Too many tokens, please wait before trying again."
    assert overflow_of(refusal("ThrottlingException", wait, HTTPStatusCode=429)) is None
    assert overflow_of(refusal("throttlingException", wait)) is None
    assert overflow_of(refusal("ValidationException", "Malformed input request", HTTPStatusCode=400)) is None


@pytest.mark.parametrize("library", sorted({httpx, http_of(openai)}, key=str), ids=lambda library: library.__name__)
def test_a_plain_http_error_is_read_from_its_response(library: Any) -> None:
    request = library.Request("POST", "https://example.invalid")
    body = s.error("request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it")
    response = library.Response(400, request=request, json=body)
    with pytest.raises(library.HTTPStatusError) as caught:
        response.raise_for_status()
    assert overflow_of(caught.value) == Overflow(True, 8192, 9000, 9000)


def test_a_response_that_was_not_read_says_nothing() -> None:
    response = httpx.Response(
        400, request=httpx.Request("POST", "https://example.invalid"), stream=httpx.ByteStream(b"")
    )
    assert overflow_of(httpx.HTTPStatusError("400 Bad Request", request=response.request, response=response)) is None


def test_an_error_in_a_stream_is_judged_by_its_body() -> None:
    request = http_of(openai).Request("POST", "https://example.invalid")

    def sent(message: str, **body: Any) -> Exception:
        return openai.APIError(message, request, body={"message": message, **body})

    assert certain(sent("This model's maximum context length is 8 tokens.", code=400, type="BadRequestError"))
    assert certain(sent("Your input exceeds the context window of this model.", type="invalid_request_error"))
    assert certain(sent("No.", code="context_length_exceeded"))
    assert overflow_of(sent("Internal error while summing the context window", code=500)) is None
    assert overflow_of(sent("Rate limit reached: too many tokens", type="tokens")) is None


# Wordings


WORDINGS = {
    "OpenAI with functions": (
        "This model's maximum context length is 4097 tokens. However, your messages resulted in 4238 tokens (4143 in "
        "the messages, 95 in the functions). Please reduce the length of the messages or functions.",
        Overflow(True, 4097, 4238, 4238),
    ),
    "OpenAI, three parts": (
        "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (3000 in the messages, "
        "100 in the functions, and 1900 in the completion). Please reduce the length of the messages, functions, or "
        "completion.",
        Overflow(True, 4097, 5000, 3100, 1900),
    ),
    "OpenAI, completions": (
        "This model's maximum context length is 4097 tokens, however you requested 4353 tokens (4097 in your prompt; "
        "256 for the completion). Please reduce your prompt; or completion length.",
        Overflow(True, 4097, 4353, 4097, 256),
    ),
    "OpenAI, configured": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens. Please "
        "reduce the length of the messages.",
        Overflow(True, 272_000, 477_469, 477_469),
    ),
    "OpenAI, responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        Overflow(True),
    ),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of "
        "202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion. Please reduce the "
        "number of tokens in the input messages or the completion to fit within the limit.",
        Overflow(True, 202_752, 202_941, 170_941, 32_000),
    ),
    "vLLM, exact": (
        "This model's maximum context length is 8192 tokens. However, you requested 64 output tokens and your prompt "
        "contains 10000 input tokens, for a total of 10064 tokens. Please reduce the length of the input prompt or the "
        "number of requested output tokens.",
        Overflow(True, 8192, 10_064, 10_000, 64),
    ),
    "vLLM, stopped counting": (
        "This model's maximum context length is 202752 tokens. However, you requested 64000 output tokens and your "
        "prompt contains at least 138753 input tokens, for a total of at least 202753 tokens. Please reduce the length "
        "of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=138753)",
        Overflow(True, 202_752, None, None, 64_000),
    ),
    "vLLM, characters": (
        "This model's maximum context length is 8192 tokens. However, you requested 64 output tokens and your prompt "
        "contains 100000 characters (more than 81280 characters, which is the upper bound for 8128 input tokens).",
        Overflow(True, 8192, None, None, 64),
    ),
    "vLLM, multimodal": (
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that "
        "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
        Overflow(True, 4096, 25_938, 25_938),
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 262000 tokens. However, you requested about 263390 tokens (658 of "
        "text input, 732 of tool input, 262000 in the output). Please reduce the length of either one.",
        Overflow(True, 262_000, 263_390, 1390, 262_000),
    ),
    "Poolside": (
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        Overflow(True, 131_040, 131_393, 131_393),
    ),
    "parentheses": (
        "Input length (265330) exceeds model's maximum context length (262144).",
        Overflow(True, 262_144, 265_330, 265_330),
    ),
    "Together": (
        "The input (265330 tokens) is longer than the model's context length (262144 tokens).",
        Overflow(True, 262_144, 265_330, 265_330),
    ),
    "Mistral": (
        "Prompt contains 66385 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        Overflow(True, 32_768, 66_385, 66_385),
    ),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        Overflow(True, 131_072, 537_812, 537_812),
    ),
    "Groq": ("Please reduce the length of the messages or completion.", Overflow(True)),
    "Cerebras": (
        "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
        Overflow(True, 40_000, 42_328),
    ),
    "Fireworks": (
        "The prompt is too long: 154827, model maximum context length: 131071",
        Overflow(True, 131_071, 154_827, 154_827),
    ),
    "Kimi": (
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
        Overflow(True, 262_144, 300_000),
    ),
    "Copilot": (
        "prompt token count of 145000 exceeds the limit of 128000",
        Overflow(True, 128_000, 145_000, 145_000),
    ),
    "MiniMax": ("invalid params, context window exceeds limit", Overflow(True)),
    "LM Studio": (
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        Overflow(True),
    ),
    "ds4": (
        "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens",
        Overflow(True, 131_072, 300_000, 300_000),
    ),
    "DashScope": ("Range of input length should be [1, 129024]", Overflow(True, 129_024)),
    "Ollama": ("prompt too long; exceeded max context length by 4096 tokens", Overflow(True)),
    "Ollama, runner": ("the input length exceeds the context length", Overflow(True)),
    "TGI": (
        "Input validation error: `inputs` must have less than 2048 tokens. Given: 2222",
        Overflow(True, 2048, 2222, 2222),
    ),
    "DeepInfra": (
        "Requested input length 5000 exceeds maximum input length 4096",
        Overflow(True, 4096, 5000, 5000),
    ),
    "watsonx": (
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model",
        Overflow(True),
    ),
    "Cohere": ("too many tokens: size limit exceeded by 120 tokens", Overflow(True)),
    "Qianfan": ("Prompt tokens too long", Overflow(True)),
    "LM Studio, loaded": (
        "Trying to keep the first 7300 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough. Try to load the model with a larger context length.",
        Overflow(True, 4096, 7300, 7300),
    ),
    "vLLM, decoder": (
        "The decoder prompt (length 7300) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        Overflow(True, 4096, 7300, 7300),
    ),
    "SiliconFlow": (
        "length of prompt_tokens (7300) must be less than max_seq_len (4096).",
        Overflow(True, 4096, 7300, 7300),
    ),
    "Zhipu": ("Prompt 超长", Overflow(True)),
    "Z.ai": ("Prompt exceeds max length", Overflow(True)),
    "Volcengine": ("Total tokens of image and text exceed max message tokens.", Overflow(True)),
    "LiteLLM": (
        "litellm.BadRequestError: litellm.ContextWindowExceededError: OpenAIException - too much",
        Overflow(True),
    ),
}


@pytest.mark.parametrize("name", WORDINGS)
def test_the_wordings_of_providers_are_recognised_and_their_sizes_read(name: str) -> None:
    text, expected = WORDINGS[name]
    assert overflow_of(Refused(f"Error code: 400 - {text}")) == expected
    assert overflow_of(Refused("Error code: 400", body={"error": {"message": text}})) == expected


@pytest.mark.parametrize("name", WORDINGS)
def test_the_same_words_without_a_status_are_nothing_when_a_tool_says_them(name: str) -> None:
    assert overflow_of(RuntimeError(f"tool said: {WORDINGS[name][0]}")) is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Requested tokens (18690) exceed context window of 7168"),
        RuntimeError("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."),
        ValueError("prompt too long; exceeded max context length by 12 tokens"),
        ValueError("the request exceeds the available context size, try increasing it"),
    ],
    ids=str,
)
def test_a_sentence_known_word_for_word_needs_no_status(error: Exception) -> None:
    assert certain(error)


def test_the_window_of_a_model_in_the_same_process_is_learnt() -> None:
    found = overflow_of(ValueError("Requested tokens (18690) exceed context window of 7168"))
    assert found == Overflow(True, 7168, 18_690, 18_690)


def test_a_status_of_500_counts_only_with_such_a_sentence() -> None:
    assert certain(Refused("Context size has been exceeded.", 500))
    assert overflow_of(Refused("Failed while the context size was exceeded elsewhere", 500)) is None


@pytest.mark.parametrize("code", sorted(CODES))
def test_codes_that_mean_nothing_else_decide(code: str) -> None:
    assert certain(Refused("no", None, {"error": {"code": code}}))
    assert certain(Refused("no", 422, {"error": {"type": code}}))


def test_the_class_of_another_library_decides() -> None:
    class ContextWindowExceededError(Exception):
        pass

    assert certain(ContextWindowExceededError("litellm: too long"))


def test_sizes_that_do_not_explain_the_failure_are_not_believed() -> None:
    text = "This model's maximum context length is 8192 tokens. However, you requested 100 tokens."
    assert overflow_of(Refused(text)) == Overflow(True)
    assert overflow_of(Refused(f"maximum context length is {'9' * 40} tokens")) == Overflow(True)


@pytest.mark.parametrize(
    "limit, prompt, completion, blamed",
    [(100, 90, 20, True), (100, 110, 20, False), (100, 100, 1, False), (100, 90, None, False), (None, 90, 20, False)],
)
def test_the_completion_is_to_blame_when_the_prompt_alone_fits(
    limit: int | None, prompt: int, completion: int | None, blamed: bool
) -> None:
    assert Overflow(True, limit, None, prompt, completion).completion_is_to_blame is blamed


# As servers shape them, through the client


def refused(status: int, body: Any) -> openai.APIStatusError:
    """What the client of OpenAI raises for such an answer."""
    library = http_of(openai)
    request = library.Request("POST", "https://example.invalid")
    client = openai.OpenAI(api_key="x", base_url="https://example.invalid")
    return client._make_status_error_from_response(library.Response(status, request=request, json=body))


LOADED, DECODER, SILICON = (WORDINGS[name][0] for name in ("LM Studio, loaded", "vLLM, decoder", "SiliconFlow"))
ANSWERS: dict[str, tuple[int, Any, Overflow]] = {
    "an error that is text": (400, {"error": LOADED}, Overflow(True, 4096, 7300, 7300)),
    "an error that is an object": (400, {"error": {"message": LOADED}}, Overflow(True, 4096, 7300, 7300)),
    "a message with a code": (
        400,
        {"object": "error", "message": DECODER, "type": "BadRequestError", "param": None, "code": 400},
        Overflow(True, 4096, 7300, 7300),
    ),
    "a detail with 500": (500, {"detail": f"[address=0.0.0.0:1, pid=1] {DECODER}"}, Overflow(True, 4096, 7300, 7300)),
    "an error with 500": (500, {"error": {"message": DECODER}}, Overflow(True, 4096, 7300, 7300)),
    "a code of its own": (400, {"code": 20015, "message": SILICON, "data": None}, Overflow(True, 4096, 7300, 7300)),
    "Chinese": (400, {"error": {"code": "1261", "message": "Prompt 超长"}}, Overflow(True)),
    "a code that is a word": (
        400,
        {"error": {"code": "InvalidParameter", "message": WORDINGS["Volcengine"][0]}},
        Overflow(True),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answers_of_servers_are_recognised_in_whatever_shape(name: str) -> None:
    status, body, expected = ANSWERS[name]
    assert overflow_of(refused(status, body)) == expected


@pytest.mark.parametrize(
    "status, message",
    [
        (429, SILICON),
        (401, LOADED),
        (500, f"The worker died after: {DECODER}"),
        (400, "Request reached the limit of 4096 tokens per minute"),
        (400, "max_tokens must be less than max_seq_len (4096)."),
        (400, "max_tokens (7300) must be less than max_seq_len (4096)."),
        (400, "The image is longer than the maximum edge of 4096 pixels."),
        (400, "图片过大"),
        (400, "The parameter max_tokens is not valid: expected at most 4096"),
        (400, "Total size of images exceeds the limit of 20 MB."),
        (400, "You exceeded your quota of message tokens."),
        (400, "Name 超长"),
    ],
)
def test_answers_about_something_else_are_none(status: int, message: str) -> None:
    for body in ({"error": message}, {"error": {"message": message}}, {"message": message}, {"detail": message}):
        assert overflow_of(refused(status, body)) is None


# Where the error hides


def raised(outer: Exception, inner: Exception, how: str) -> Exception:
    try:
        try:
            raise inner
        except Exception as error:
            if how == "cause":
                raise outer from error
            if how == "context":
                raise outer  # noqa: B904 - the implicit context is what is tried
            raise outer from None
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return error


@pytest.mark.parametrize("how, expected", [("cause", True), ("context", True), ("suppressed", False)])
def test_causes_and_contexts_are_searched_unless_suppressed(how: str, expected: bool) -> None:
    error = raised(ValueError("Error raised by the service"), ContextOverflowError("too long"), how)
    assert certain(raised(RuntimeError("agent failed"), error, "cause")) is expected


def test_a_rate_limit_met_while_recovering_is_a_rate_limit() -> None:
    overflow = ContextOverflowError("too long")
    assert overflow_of(raised(Refused("slow down", 429), overflow, "context")) is None
    assert overflow_of(raised(TimeoutError(), overflow, "context")) is None
    assert overflow_of(raised(ModelTimeoutError(), overflow, "context")) is None
    assert overflow_of(raised(Refused("Invalid schema"), overflow, "context")) is None
    assert certain(raised(Refused("Bad Request"), overflow, "cause"))


def test_groups_are_searched() -> None:
    overflow = Refused("prompt is too long: 3 tokens > 2 maximum")
    empty = ValueError("No generation chunks were returned")
    assert certain(ExceptionGroup("two", [KeyError("x"), ExceptionGroup("inner", [empty, overflow])]))
    assert overflow_of(ExceptionGroup("one", [KeyError("x"), empty])) == Overflow(certain=False)
    assert overflow_of(ExceptionGroup("none", [KeyError("x")])) is None


def test_chains_that_bite_their_tail_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert overflow_of(first) is None


def test_cancellation_is_never_an_overflow() -> None:
    cancelled = asyncio.CancelledError()
    cancelled.__context__ = ContextOverflowError("too long")
    assert overflow_of(cancelled) is None
    assert overflow_of(KeyboardInterrupt()) is None
    group = BaseExceptionGroup("both", [KeyboardInterrupt(), ContextOverflowError("too long")])
    assert overflow_of(group) is None


# What it is not


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("tool said: maximum context length"),
        ValueError("The context window is closed; the prompt is too long for the display"),
        RuntimeError("No generation chunks were returned"),
        ValueError("the tool said: No generation chunks were returned"),
        Refused("maximum context length is 4 tokens", 401),
        Refused("maximum context length is 4 tokens", 403),
        Refused("This model's maximum context length is 4 tokens", 404),
        Refused("Rate limit reached: token limit exceeded for this minute, too many tokens"),
        Refused("You exceeded your current quota, too many tokens."),
        Refused("too many tokens", 503),
        Refused("'max_tokens' (990000) exceeds model maximum (32768)"),
        Refused("max_tokens for `m` must be less than or equal to 8000"),
        Refused("Invalid 'messages[0].content': string too long.", body={"code": "string_above_max_length"}),
        Refused("Model context window too small (minimum is 128k tokens)"),
        Refused("The generate limit of images was reached"),
        Refused("", 409),
        Refused("The request exceeds the limit of 20 images"),
        Refused("Invalid request: the image input is too large"),
        KeyError("context_length_exceeded"),
        OSError(7, "Argument list too long"),
        PermissionError("request too large"),
        ConnectionResetError("prompt is too long: 3 tokens > 2 maximum"),
    ],
    ids=repr,
)
def test_other_errors_are_none(error: Exception) -> None:
    assert overflow_of(error) is None


def test_what_a_validation_error_repeats_of_the_request_is_not_its_message() -> None:
    echoed = "prompt is too long"
    detail = [{"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": {"content": echoed}}]
    assert overflow_of(Refused("Error code: 422", 422, {"detail": detail})) is None
    text = f"[{{'type': 'extra_forbidden', 'loc': ('body', 'x'), 'msg': 'Not permitted', 'input': '{echoed}'}}]"
    assert overflow_of(Refused(text, 400, {"message": text})) is None
    assert certain(Refused("Error code: 422", 422, {"detail": [{"msg": echoed, "input": {}}]}))


# Strange errors


class Explosive(Exception):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def deep() -> dict[str, Any]:
    body: dict[str, Any] = {}
    body["error"] = body
    return body


STRANGE: dict[str, Callable[[], BaseException]] = {
    "everything raises": Explosive,
    "a body that holds itself": lambda: Refused("x", 400, deep()),
    "keys that are no text": lambda: Refused("x", 400, {1: {None: "y"}, "error": [[[]], None, 3.5]}),
    "a status that is true": lambda: Refused("prompt is too long", True),
    "a status that is none": lambda: Refused("maximum context length", -1),
    "a body of bytes": lambda: Refused("x", 400, b"prompt is too long"),
    "a code that is a function": lambda: _with(code=lambda: 400, details=lambda: "too long"),
    "a response of another kind": lambda: _with(response=SimpleNamespace(status_code="x", text=7)),
    "JSON without an end": lambda: _with(response=SimpleNamespace(status_code=400, text="[" * 100_000)),
}


def _with(**attributes: Any) -> Exception:
    error = RuntimeError("prompt is too long")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize("name", STRANGE)
def test_strange_errors_are_none_and_raise_nothing(name: str) -> None:
    assert overflow_of(STRANGE[name]()) is None


def test_a_status_may_be_of_the_standard_library_or_text_in_the_body() -> None:
    assert certain(_with(code=HTTPStatus.BAD_REQUEST))
    assert certain(_with(response=SimpleNamespace(status_code=422, text="")))
    assert certain(_with(status=413))
    assert certain(Refused("prompt is too long", None, {"code": "400"}))


def test_a_very_long_message_is_judged_by_its_beginning() -> None:
    assert certain(Refused("prompt is too long: " + "exceed " * 200_000))
    assert overflow_of(Refused("exceed " * 200_000 + "prompt is too long")) is None
