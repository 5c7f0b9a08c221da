"""A summary without a model: what was asked, said and seen, quoted and shortened.

It is the rung below a failed summariser, so it must always work: the same messages and the same previous summary give
the same text, never above the size asked for, in any language. It quotes, it does not judge, and says so in its first
line. The parts are those of every summary (`SESSION INTENT`, `SUMMARY`, `NEXT STEPS`); hard facts are added by whoever
asks for it.

A previous summary is taken apart and not nested: its intent is carried on and its other lines become bullets, which
get half of the room when that is scarce. Scarce room shortens the oldest bullets first and then leaves them out, so
repeated extraction keeps its size and forgets the oldest details first.
"""

import re
from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from .artifacts import error_lines
from .groups import says
from .text import clean_text, message_text, one_line, preview, to_json

NOTE = "(extracted without a model)"

_INTENT, _SUMMARY, _NEXT, _ARTIFACTS = "SESSION INTENT", "SUMMARY", "NEXT STEPS", "ARTIFACTS"
_HEADING = re.compile(
    rf"^[ \t]*#{{1,6}}[ \t]*({_INTENT}|{_SUMMARY}|{_NEXT}|{_ARTIFACTS})[ \t:]*$", re.IGNORECASE | re.MULTILINE
)
_LATEST = "\n\nLatest request: "
_FRAME = "\n".join([NOTE, f"## {_INTENT}", "{}", f"## {_SUMMARY}", "{}", f"## {_NEXT}", "{}"])
_BULLET_SIGN = re.compile(r"\s*(?:(?:#{1,6}|[-*•])\s+)*")
_SENTENCE_END = re.compile(r"[。！？]|[.!?](?=\s)")

_TINY_CHARS = 120
_BULLET_CHARS = 300
_SHORT_BULLET_CHARS = 100
_RESULT_CHARS = 160
_MIN_PREVIEW_CHARS = 40
_MAX_STATEMENTS = 6
_MAX_ERRORS = 5
_MAX_CALLS = 5


def extract(messages: Sequence[BaseMessage], previous: str, max_chars: int) -> str:
    """A summary of `previous` and the `messages` after it in at most `max_chars` characters.

    Blank only where neither has anything to say. Below 120 characters it is one line about the latest request.
    """
    intent, asked, old = _take_apart(clean_text(previous))
    requests = [text for message in messages if says(message) and (text := _text(message))]
    first = intent or "".join(requests[:1])
    latest = "".join(requests[-1:]) or asked
    if asked not in ("", latest):
        old.append(_bullet("user", asked))
    new = _bullets(messages, first, latest)
    steps = _steps(messages)
    if max_chars < _TINY_CHARS:
        return _tiny([latest, first, *reversed([*steps, *old, *new])], max_chars)
    if not (first or old or new or steps):
        return ""
    return _layout(first, latest, old, new, steps, max_chars)


def _tiny(texts: Iterable[str], max_chars: int) -> str:
    text = next(filter(None, texts), "")
    return one_line(text if max_chars < 2 * len(NOTE) or not text else f"{NOTE} {text}", max_chars)


def _layout(
    first: str, latest: str, old: Sequence[str], new: Sequence[str], steps: Sequence[str], max_chars: int
) -> str:
    room = max_chars - len(_FRAME.format("", "", ""))
    next_steps = "\n".join(_fit(steps, room // 5))
    room -= len(next_steps)
    intent = _requests(first, latest, max(room * 2 // 5, room - _size(old) - _size(new)))
    room -= len(intent)
    kept_old = _fit(old, max(room // 2, room - _size(new)))
    kept_new = _fit(new, room - _size(kept_old))
    return _FRAME.format(intent, "\n".join([*kept_old, *kept_new]), next_steps)


def _requests(first: str, latest: str, room: int) -> str:
    """Both requests, the first with the room that the latest leaves and at least half of it."""
    if latest in ("", first):
        return _cut(first, room)
    start = _cut(first, max(room // 2, room - len(_LATEST) - len(latest)))
    rest = room - len(start) - len(_LATEST)
    return f"{start}{_LATEST}{_cut(latest, rest)}" if rest > 0 else start


def _cut(text: str, room: int) -> str:
    """A preview without our headings at the start of a line, so that a later extraction finds only its own."""
    short = preview(text, room, "[…]") if room >= _MIN_PREVIEW_CHARS else one_line(text, room)
    return _HEADING.sub(r"\1", short).strip()


def _take_apart(previous: str) -> tuple[str, str, list[str]]:
    """Intent, latest request and bullets of an earlier summary; a text without our headings is all bullets.

    Facts are collected anew by others. Of an extraction, errors are among those facts and its last steps are outdated.
    """
    before, *pieces = _HEADING.split(previous.strip())
    bodies: dict[str, str] = {}
    for heading, body in zip(pieces[::2], pieces[1::2], strict=True):
        bodies[heading.upper()] = f"{bodies.get(heading.upper(), '')}\n{body}".strip()
    intent, _, latest = bodies.get(_INTENT, "").partition(_LATEST)
    extracted = before.startswith(NOTE)
    told = [before.removeprefix(NOTE), bodies.get(_SUMMARY, ""), "" if extracted else bodies.get(_NEXT, "")]
    lines = [_BULLET_SIGN.sub("", line, count=1) for text in told for line in text.splitlines()]
    kept = [line for line in lines if any(map(str.isalnum, line)) and not (extracted and line.startswith("error: "))]
    return intent, latest, [f"- {_shorten(line, _BULLET_CHARS)}" for line in kept]


def _bullets(messages: Sequence[BaseMessage], first: str, latest: str) -> list[str]:
    """Requests between the first and the latest, the last statements and errors, in the order they came in.

    Messages that hold none of these, such as plain tool results only, are told by their last text.
    """
    statements, errors = _MAX_STATEMENTS, _MAX_ERRORS
    bullets: list[str] = []
    for message in reversed(messages):
        text = _text(message)
        if says(message) and text not in ("", first, latest):
            bullets.append(_bullet("user", text))
        elif isinstance(message, AIMessage) and text and statements:
            statements -= 1
            bullets.append(_bullet("assistant", text))
        elif isinstance(message, ToolMessage) and errors:
            found = error_lines(message)[-errors:]
            errors -= len(found)
            bullets.extend(_bullet("error", line) for line in reversed(found))
    if not bullets and not first:
        bullets = [_bullet(message.type, text) for message in messages if (text := _text(message))][-1:]
    return list(dict.fromkeys(bullets))[::-1]


def _steps(messages: Sequence[BaseMessage]) -> list[str]:
    """The last calls with what came of them, and whether the last word was a request."""
    results: dict[str, ToolMessage] = {}
    steps: list[str] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
        elif isinstance(message, AIMessage) and message.tool_calls:
            steps = [_step(call, results.get(call["id"] or "")) for call in message.tool_calls[:_MAX_CALLS]]
            break
    if messages and says(messages[-1]) and _text(messages[-1]):
        steps.append("- the latest request has no answer yet")
    return steps


def _step(call: ToolCall, result: ToolMessage | None) -> str:
    args = one_line(to_json(call["args"]), _RESULT_CHARS)
    outcome = "no result yet" if result is None else f"answered: {_shorten(_text(result), _RESULT_CHARS)}"
    return clean_text(f"- called {call['name']}({args}), {outcome}")


def _text(message: BaseMessage) -> str:
    return clean_text(message_text(message)).strip()


def _bullet(role: str, text: str) -> str:
    return f"- {role}: {_shorten(text, _BULLET_CHARS)}"


def _shorten(text: str, limit: int) -> str:
    """One line that ends with a whole sentence where one ends in its second half."""
    line = one_line(text, limit)
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    if line.endswith("…") and ends and ends[-1] > limit // 2:
        return line[: ends[-1]] + "…"
    return line


def _size(bullets: Iterable[str]) -> int:
    return sum(len(bullet) + 1 for bullet in bullets)


def _fit(bullets: Sequence[str], room: int) -> list[str]:
    """`bullets` in at most `room` characters: the oldest are shortened, then left out, the newest is cut."""
    kept = list(bullets)
    size = _size(kept)
    for index, bullet in enumerate(bullets):
        if size <= room:
            return kept
        kept[index] = _shorten(bullet, _SHORT_BULLET_CHARS)
        size -= len(bullet) - len(kept[index])
    start = 0
    while start < len(kept) and size > room:
        size -= len(kept[start]) + 1
        start += 1
    return kept[start:] or [one_line(bullet, room - 1) for bullet in bullets[-1:] if room > _MIN_PREVIEW_CHARS]
