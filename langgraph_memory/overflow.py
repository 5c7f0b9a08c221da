"""Tells whether a model call failed because the context was too long, and what the provider said about the sizes.

There is no one way to learn it: `ContextOverflowError` is raised for some wordings of some providers, everything else
arrives as the client library's own error. So an error is judged by what it carries, in this order:

1. A refusal that is about something else (rate, credentials, content filter, time-out) is never an overflow.
2. `ContextOverflowError`, or a code that means nothing else, is one.
3. So is 413, and a 400 or 422 whose message says it in one of the known ways. Without a status the message counts if
   it came in a provider's error body, as it does in the middle of a stream.
4. An error without a status and without a body, such as a tool's, has to *begin* with a sentence that a model runtime
   is known to raise; so has what an error with 500 or above says. That it mentions such words somewhere is not enough.
5. An empty stream, or a 400 that says nothing at all, may be one: `certain` is False.

What an error does not say itself, its cause may, or its context. A caller that tries again therefore does so behind
the `except` block, not inside it, or the second error carries the first as its context.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeoutError,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request that did not fit. Sizes are in tokens, as the provider named them; None is what it did not name."""

    certain: bool
    """False for a failure that may have other reasons; a request far below the window had another one."""
    limit: int | None = None
    """The window, or what of it the input may take."""
    requested: int | None = None
    """What was asked for: the prompt and, where it counts, the completion."""
    prompt: int | None = None
    completion: int | None = None

    @property
    def completion_is_to_blame(self) -> bool:
        """Whether the prompt alone fits, so that a smaller `max_tokens` is enough."""
        if self.limit is None or self.prompt is None or self.completion is None:
            return False
        return self.prompt < self.limit < self.prompt + self.completion


def overflow_of(error: BaseException) -> Overflow | None:
    """The overflow that `error` reports, or None if it is about something else. Never raises."""
    return _found(error, set())


CODES = {
    "context_length_exceeded",  # OpenAI, Azure, Groq, Cerebras
    "exceed_context_size_error",  # llama.cpp
    "model_context_window_exceeded",  # Z.ai
    "contextwindowexceedederror",  # LiteLLM
    "request_too_large",  # Anthropic
    "tokens_too_long",  # Qianfan
    "characters_too_long",  # Qianfan
}
OTHER_CODES = {"rate_limit_exceeded", "insufficient_quota", "content_filter", "content_policy_violation"}
OTHER_ERRORS = (
    TimeoutError,
    ConnectionError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelRefusalError,
    ModelTimeoutError,
)
TOO_LARGE = 413
REFUSED = {400, 422}

# Bedrock says "Too many tokens, please wait" when it throttles, Groq answers 413 for tokens per minute.
OTHER = re.compile(
    r"tokens? per (?:min|hour|day)|\b[tr]p[md]\b|\brate.?limit|too many requests|quota|throttl|please wait"
)

# Each is a wording seen from the providers named behind it, cut down to what their variants share.
TOO_LONG = re.compile(
    "|".join(
        (
            r"context_length_exceeded|exceed_context_size_error|contextwindowexceedederror",
            r"maximum (?:allowed )?(?:context|prompt|input) length",  # OpenAI, DeepSeek, vLLM, SGLang, Mistral, xAI
            r"exceed\w*[^.]{0,40}context (?:window|length|size|limit)",  # OpenAI, llama.cpp, Anthropic, Ollama
            r"context (?:window|length|size|limit) (?:has been |was )?exceed",  # MiniMax, LM Studio, llama.cpp
            r"(?:longer|greater) than the (?:model'?s )?context length",  # Together, LM Studio
            r"configured context size is",  # ds4
            r"too long to fit into the model",  # vLLM
            r"longer than the maximum model length",  # vLLM, Xinference
            r"when context (?:the )?overflows|loaded with context length of only",  # LM Studio
            r"prompt_tokens(?: \(\d+\))? must be less than max_seq_len",  # SiliconFlow
            r"(?:prompt|输入|上下文|提示词)(?:内容|长度|文本)? ?(?:超长|过长)",  # Zhipu
            r"prompt exceeds max(?:imum)? length",  # Z.ai
            r"exceeds? (?:the )?max(?:imum)? message tokens",  # Volcengine
            r"(?:prompt|input|conversation)(?: tokens?| token length)? (?:is )?too long",  # Anthropic, Bedrock, Qianfan
            r"(?:prompt|request)(?: is)? too large",
            r"too many (?:input |prompt )?tokens",  # Cohere
            r"reduce the (?:length|number) of (?:the |your |tokens in the )*(?:input )?(?:messages|prompt|inputs?)",
            r"(?:input|prompt) tokens? count[^.]{0,60}(?:exceed|only supports)",  # Gemini, Vertex, Copilot
            r"(?:input|prompt) tokens?(?: \d+)? (?:cannot )?exceed",  # OpenAI, Nova, watsonx
            r"exceeded model token limit",  # Kimi
            r"range of input length should be",  # DashScope
            r"`inputs`(?: tokens \+ `max_new_tokens`)? must (?:be <=|have less than)",  # TGI
            r"tokens in request more than max tokens allowed",
            r"request exceeds the maximum size|payload size exceeds the limit",  # Anthropic, Gemini
        )
    )
)
SENTENCES = re.compile(
    "|".join(
        (
            r"requested tokens (?:\(\d+\) )?exceed context window of \d",  # llama-cpp-python
            r"(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size",  # llama.cpp
            r"context size has been exceeded",  # llama.cpp, with status 500
            r"this (?:model|endpoint)'s maximum context length is \d+ tokens",
            r"the prompt \(total length \d+\) is too long to fit into the model",  # vLLM
            r"(?:\[address=[^\]\n]{0,80}\] )?the (?:(?:de|en)coder )?prompt \(length \d+\) is longer than the maximum",
            r"prompt is too long: \d+ tokens",
            r"(?:the )?input length exceeds the context length",  # Ollama
            r"prompt too long; exceeded (?:max )?context length",  # Ollama
            r"input validation error: `inputs` ",  # TGI
        )
    )
)
EMPTY_STREAMS = ("No generation chunks were returned", "No generations found in stream.")
SAYS_NOTHING = re.compile(r"(?:error code: )?400(?: status code \(no body\))?")

_N = r"(\d[\d,]*+)(?! ?(?:bytes|characters|mb))"
LIMIT = (
    rf"context limit: \d+ \+ \d+ > {_N}",
    rf"maximum (?:allowed )?(?:context|prompt|input) length(?: is| of|:)? \(?{_N}",
    rf"> {_N} maximum",
    rf"{_N} maximum context length",
    rf"context (?:length|size) (?:is )?\({_N} tokens",
    rf"context length {_N}\)",
    rf"configured context size is {_N}",
    rf"context window of {_N}",
    rf"loaded with context length of only {_N}",
    rf"maximum model length of {_N}",
    rf"max_seq_len \({_N}",
    rf"maximum number of tokens allowed \({_N}",
    rf"only supports up to {_N}",
    rf"(?:configured|the) limit of {_N}",
    rf"model token limit: {_N}",
    rf"while limit is {_N}",
    rf"range of input length should be \[\d+, ?{_N}",
    rf"must be <= {_N}",
    rf"must have less than {_N} tokens",
)
REQUESTED = (
    rf"requested (?:about |a total of )?{_N} tokens",
    rf"\(requested: {_N}",
    rf"for a total of {_N} tokens",
    rf"current length is {_N}",
)
# "At least" so many is what a server says that stopped counting, so it is no size and matches nothing here.
PROMPT = (
    rf"resulted in {_N} tokens",
    rf"\(?{_N} (?:tokens )?(?:in|from) (?:the|your) (?:input )?(?:messages|prompt)",
    rf"context limit: {_N} \+",
    rf"prompt is too long: {_N}",
    rf"(?:request|prompt) (?:has|contains) {_N} (?:input )?tokens",
    rf"(?:request|input) \({_N} tokens\)",
    rf"request contains {_N} tokens",
    rf"(?:input|prompt) token count (?:is |of )?\(?{_N}",
    rf"input length \(?{_N}",
    rf"requested tokens \({_N}\)",
    rf"total length {_N}\)",
    rf"prompt \(length {_N}\)",
    rf"prompt_tokens \({_N}\)",
    rf"keep the first {_N} tokens",
    rf"given: {_N}",
)
COMPLETION = (
    rf"{_N} (?:tokens )?(?:in|for) the (?:completion|output)",
    rf"context limit: \d+ \+ {_N}",
    rf"requested {_N} output tokens",
    rf"max_completion_tokens' is too large: {_N}",
    rf"and {_N} `max_new_tokens`",
)

LINKS = 50
LONGEST = 20_000
_ECHO = re.compile(r"""["']input["'] ?:""")
_TEXTS = {"message", "msg", "error", "detail", "description", "raw", "title"}
_MARKS = {"code", "type", "status", "error_type", "error_code"}
_INSIDE = {"error", "errors", "detail", "details", "metadata", "innererror"}

Verdict = Overflow | Literal[False] | None
"""What one error says: an overflow, something else, or nothing that decides."""


def _found(error: BaseException | None, seen: set[int]) -> Overflow | None:
    """The first certain overflow along the chain, or else the first possible one."""
    possible: Overflow | None = None
    while isinstance(error, Exception) and id(error) not in seen and len(seen) < LINKS:
        seen.add(id(error))
        said = _said(error)
        verdict = _in_group(error, seen) if isinstance(error, ExceptionGroup) else _judged(error, said)
        if verdict is False:
            break
        if verdict and verdict.certain:
            return verdict
        possible = possible or verdict
        # A refused request has a reason of its own. Only an explicit cause may explain it further.
        implied = None if error.__suppress_context__ or said.status else error.__context__
        error = error.__cause__ or implied
    return possible


def _in_group(group: ExceptionGroup[Exception], seen: set[int]) -> Overflow | None:
    found = [overflow for error in group.exceptions if (overflow := _found(error, seen))]
    return max(found, key=lambda overflow: overflow.certain, default=None)


@dataclass(frozen=True, slots=True)
class _Said:
    """What an error carries. `text` and `codes` are in lower case."""

    status: int | None
    codes: frozenset[str]
    text: str
    served: bool
    """Whether it came in the body of a provider's answer."""
    sizes: dict[str, int]


def _judged(error: Exception, said: _Said) -> Verdict:
    if isinstance(error, OTHER_ERRORS) or said.status == 429 or said.codes & OTHER_CODES:
        return False
    if said.codes & CODES or isinstance(error, ContextOverflowError):
        return _told(said)
    if said.status in (None, TOO_LARGE, *REFUSED) and OTHER.search(said.text):
        return False
    if said.status == TOO_LARGE:
        return _told(said)
    if said.status in REFUSED or (said.status is None and said.served):
        if TOO_LONG.search(said.text):
            return _told(said)
        return Overflow(certain=False) if SAYS_NOTHING.fullmatch(said.text) else None
    if (said.status or 500) >= 500 and _begins_so(error, said):
        return _told(said)
    if type(error) is ValueError and _message(error) in EMPTY_STREAMS:
        return Overflow(certain=False)
    return False if said.status else None


def _begins_so(error: Exception, said: _Said) -> bool:
    """Whether the error, or what the provider's body says in it, begins with a known sentence."""
    return any(map(SENTENCES.match, (said.text, _message(error).lower())))


def _told(said: _Said) -> Overflow:
    limit = said.sizes.get("n_ctx") or _size(LIMIT, said.text)
    prompt = said.sizes.get("n_prompt_tokens") or _size(PROMPT, said.text)
    completion, requested = _size(COMPLETION, said.text), _size(REQUESTED, said.text)
    if requested is not None and completion is not None:
        # The parts may be three, with tools in the middle.
        prompt = requested - completion
    elif requested is None and prompt is not None:
        requested = prompt + (completion or 0)
    overflow = Overflow(True, limit, requested, prompt, completion)
    return overflow if _makes_sense(overflow) else Overflow(True)


def _makes_sense(overflow: Overflow) -> bool:
    """Sizes that do not explain the failure were not understood, and nobody may learn a window from them."""
    limit, requested, prompt = overflow.limit, overflow.requested, overflow.prompt
    return limit != 0 and (prompt is None or prompt >= 0) and (not limit or requested is None or requested >= limit)


def _size(patterns: tuple[str, ...], text: str) -> int | None:
    found = next((match for pattern in patterns if (match := re.search(pattern, text))), None)
    digits = found[1].replace(",", "") if found else ""
    return int(digits) if 0 < len(digits) < 12 else None


def _said(error: Exception) -> _Said:
    facts = list(_facts(_body(error)))
    texts = [str(value) for kind, value in facts if kind == "text"]
    codes = {str(value) for kind, value in facts if kind == "mark"}
    codes |= {str(_get(error, name)) for name in ("code", "type", "error_code")}
    codes |= {kind.__name__ for kind in type(error).__mro__}
    return _Said(
        status=_status(error, codes),
        codes=frozenset(code.lower() for code in codes),
        text="\n".join(map(_without_echo, texts or [_message(error)])).lower(),
        served=bool(facts),
        sizes={kind: value for kind, value in facts if kind not in ("text", "mark")},
    )


def _body(error: Exception) -> Any:
    """The provider's answer, from wherever the client library keeps it."""
    response, details = _get(error, "response"), _get(error, "details")
    kept = (_get(error, "body"), details if isinstance(details, dict) else None, response, _get(response, "text"))
    return next((_parsed(body) for body in kept if body and isinstance(body, dict | list | str)), None)


def _facts(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The messages (`text`), codes (`mark`) and sizes in an error body. What it echoes of the request is left out."""
    if isinstance(value, str) and value.strip():
        yield "text", value
    elif isinstance(value, list) and depth < 5:
        for item in value[:20]:
            yield from _facts(item, depth + 1)
    elif isinstance(value, dict) and depth < 5:
        for key, item in value.items():
            name = key.lower() if isinstance(key, str) else ""
            if name in ("n_ctx", "n_prompt_tokens") and isinstance(item, int):
                yield name, item
            elif name in _MARKS and isinstance(item, str | int):
                yield "mark", item
            elif name in (_INSIDE if isinstance(item, dict | list) else _TEXTS):
                yield from _facts(item, depth + 1)


def _status(error: Exception, codes: set[str]) -> int | None:
    response = _get(error, "response")
    named = [_get(error, name) for name in ("status_code", "http_status", "status", "code")]
    named += [_get(response, "status_code"), _get(response, "status")]
    if isinstance(response, dict) and isinstance(metadata := response.get("ResponseMetadata"), dict):
        named.append(metadata.get("HTTPStatusCode"))
    named += [int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)]
    # Streams end in errors with the status of their start, and -1 is what some clients call none.
    return next((int(status) for status in named if isinstance(status, int) and 400 <= status < 600), None)


def _message(error: Exception) -> str:
    try:
        return str(error).strip()[:LONGEST]
    except Exception:  # noqa: BLE001 - an error that cannot be read says nothing
        return ""


def _get(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - properties of other libraries may raise anything
        return None


def _parsed(body: Any) -> Any:
    try:
        return json.loads(body) if isinstance(body, str) else body
    except (ValueError, RecursionError):
        return body[:LONGEST]


def _without_echo(text: str) -> str:
    """Validation errors repeat the input, in which anything may stand."""
    return _ECHO.split(text[:LONGEST], maxsplit=1)[0]
