"""Hard facts of a conversation, found without a model: paths, URLs, ids, commands and error strings.

A summary in prose loses exactly what an agent cannot guess again. These facts are read from where agents put them: the
arguments of tool calls, what people and the assistant write, and of tool results the error lines and, where a result
is short enough to be an answer and not data, its text. A fact is one line `kind: value` of at most 200 characters, the
kinds being `path`, `url`, `id`, `command` and `error`. Facts are unique, in order of last mention, the newest last.

The same messages always give the same facts. Time is linear in the text, and of a huge text only the first and last
20,000 characters are read. The rules know shapes, not languages; only the words for "error" are listed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .text import clean_text, message_text, one_line, preview, to_json

Fact = tuple[str, str]
"""A kind and its value."""

KINDS = ("path", "url", "id", "command", "error")

MAX_ITEM_CHARS = 200

_WINDOW_CHARS = 40_000
_ANSWER_CHARS = 500
_ARGUMENT_CHARS = 1_000
_COMMAND_CHARS = 2_000
_JSON_CHARS = 20_000
_MAX_LEAVES = 200
_MAX_NESTING = 8
_FIRST_ERRORS, _LAST_ERRORS = 2, 3

_SHELL = re.compile(r"bash|shell|terminal|console|exec|run_command|^(?:run|sh|zsh|cmd)$", re.IGNORECASE)
_COMMAND_KEYS = frozenset({"command", "commands", "cmd", "script"})
_PATH_KEY = re.compile(r"(?:path|dir|directory|folder|cwd|(?<!pro)file|file_?name)s?$", re.IGNORECASE)
_ID_KEY = re.compile(r"(?:^|[_-])(?:ids?|uuid|sha|hash|commit|ticket)$|[a-z](?:Id|ID|Ids|IDs)$")
_CODE_KEY = re.compile(r"(?:number|code|ref|reference|order|reservation|booking)$", re.IGNORECASE)
_ID_VALUE = re.compile(r"[\w#.:@/+-]{3,64}")
_CODE_VALUE = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[\w#.:/-]{3,64}")

_SCHEME = re.compile(r"(?:https?|wss?|ftp|ssh|git|s3|gs|file)$", re.IGNORECASE)
_URL_REST = re.compile(r"://[^\s<>\"'`\\{}\[\]|^，。；！？、（）「」『』【】“”]+")
_PUNCTUATION = ".,;:!?*_"
_TOKEN_END = ".:#+~$-\\@"
_TOKEN = re.compile(r"[A-Za-z0-9_./\\:@#+~$-]{3,}")
_QUOTED = re.compile(r"[`\"“「『]([^\s`\"“”「」『』]{2,120}+)[`\"”」』]")
# What stands before a colon: `app.py:12:def main` names a line of a file.
_DRIVE_OR_HEAD = re.compile(r"(?:[A-Za-z]:(?=\\))?[^:#+$]+")
_EXTENSION = re.compile(r"[^/\\]\.[A-Za-z][A-Za-z0-9]{0,7}$")
_FOLDER_LIKE = re.compile(r"[A-Za-z][-_.]|[-_.][A-Za-z]")
_NO_FILE = re.compile(r"/dev/|s/.*/[gim]*$|(?:.*/)?\.git/")
_FILE_NAME = re.compile(
    r"[^/]+\.(?:bat|bib|c|cc|cfg|conf|cpp|cs|css|csv|dart|db|diff|docx?|env|exs?|gif|go|gradle|h|hpp|hs|html?|ini|ipynb"
    r"|java|jpe?g|jsx?|jsonl?|kt|lock|log|lua|md|mjs|mp[34]|patch|pdf|php|pl|png|pony|pptx|proto|ps1|pyi?|r|rb|rs|rst"
    r"|scala|scss|sh|sql|sqlite|svg|swift|tar|tex|toml|tsx?|tsv|txt|vue|wav|xlsx?|xml|ya?ml|zip)",
    re.IGNORECASE,
)
_ID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?=[0-9a-f]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}"  # commits and digests
    r"|(?!(?:UTF|SHA|ISO|GPT|MD|RFC|IPV|ASCII|COVID)-)(?=.{4})(?=[A-Z-]*\d)[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+"  # TK-204
    r"|#[A-Z]{0,4}\d{2,}(?:-\d+)*"  # #W123
    r"|(?!(?:UTF|SHA|BASE|U?INT|FLOAT|IPV|HTTP|ISO|CP)\d)(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{5,12}"  # HAT136, OI5L9G
    r"|[A-Za-z]\w{0,60}_\d{3,}"  # mia_li_3668
)

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last)"
_ERROR_HINTS = (
    *(
        "rror",
        "RROR",
        "xception",
        "ailed",
        "AILED",
        "ailure",
        "FATAL",
        "atal",
        "anic",
        "CRITICAL",
        "Fault",
        "Interrupt",
    ),
    *("xit", "eturn code", "eturncode", "status", "HTTP", "ERR!", "not found", "o such file", "denied"),
)
_ALL_ERROR_HINTS = (
    *_ERROR_HINTS,
    *("错误", "失败", "异常", "退出", "エラー", "오류", "실패", "rreur", "ehler", "шибка"),
)
# Quoted source code says "error" more often than anything that went wrong.
_CODE_LINE = re.compile(
    r"[ \t]{2,}|\t|\s*(?:\d+\s*[\t|│:→]|//|#|\*|<!--|-- |return\b|throw\b|raise\b|except\b)|(?!=).*[{;(,=]$"
)
_ERROR_LINE = re.compile(
    r"(?:E\s+|\[[^\]]{1,40}\]\s*|[\w.-]{1,30}:\s+|\d{4}-\d\d-\d\d[\d:.,TZ+\s-]{0,24})?"
    r"(?:[\w.]+(?:Error|Exception|Failure|Fault|Interrupt)\b\s*(?:[:：]|$)"
    r"|(?i:error|exception|fatal|panic|failed|failure)\b(?:\[\w+\]|\s[A-Z]+\d+)?\s*[:：!]\s*\S)"
    r"|\S{1,200}?[:(]\d+(?:[:,]\d+)?\)?:?\s+(?:fatal\s+)?error\b"
    r"|npm (?:error|ERR!)|\w+(?:\[\d+\])?: \*\*\* "
    r"|(?:FAILED|ERROR)\s+\S|\W*\d+ (?:failed|errors?)\b"
    r"|.{0,40}?\b(?:ERROR|FATAL|CRITICAL|FAILED)\b(?:\]|:|\s+(?![=(]))\s*\S"
    r"|.{0,160}?\b[Ff]ailed(?:[:.!]|$| with | to )"
    r"|.{0,250}(?:command not found|No such file or directory|[Pp]ermission denied)$"
    r"|.{0,250}?\b(?i:exit|return).{0,30}?(?i:code|status)\b[^\w-]{1,4}-?[1-9]"
    r"|.{0,250}?\bHTTP(?:/[\d.]+)?[\s\"]+[45]\d\d\b|.{0,250}?\bstatus(?:[ _]code)?[\"' :=]+[45]\d\d\b"
    r"|.{0,30}?(?:错误|失败|异常|エラー|오류|실패)(?:[：:！!，,。\s]|$)|.{0,60}?退出(?:代码|码|状态)[：:\s]*-?[1-9]"
    r"|\W{0,3}(?i:erreur|fehler|ошибка)\b.{0,40}?[:：]"
)
_ERROR_KEYS = ("error", "errors", "exception", "error_message")
_EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_FAILED = frozenset({"error", "failed", "failure"})


def artifacts(messages: Sequence[BaseMessage]) -> list[str]:
    """The facts of `messages`, each `kind: value` on one line, unique, by last mention with the newest last."""
    found: dict[str, None] = {}
    for message in messages:
        for kind, value in _facts(message):
            line = clean_text(one_line(value, MAX_ITEM_CHARS - len(kind) - 2))
            if line:
                found.pop(f"{kind}: {line}", None)
                found[f"{kind}: {line}"] = None
    return list(found)


def error_lines(message: BaseMessage) -> list[str]:
    """What a tool result says went wrong, a line each; none for other messages."""
    if not isinstance(message, ToolMessage):
        return []
    text = message_text(message)
    return [one_line(line, MAX_ITEM_CHARS) for line in _errors(text, _json_object(text), message.status)]


def merge_artifacts(old: Sequence[str], new: Sequence[str], *, max_items: int = 60, max_chars: int = 3000) -> list[str]:
    """The facts worth keeping of `old` and the later `new`, in order of last mention.

    Where not all fit, kinds take turns, each giving its newest fact, so many commands never push out the only path; a
    kind with few facts leaves its turns to the others. An item takes its length and one for the line break.
    """
    items = list(reversed(dict.fromkeys(reversed([*old, *new]))))
    kept: set[str] = set()
    room = max_chars
    for item in _by_turns(items):
        if len(kept) < max_items and len(item) < room:
            kept.add(item)
            room -= len(item) + 1
    return [item for item in items if item in kept]


def _by_turns(items: Iterable[str]) -> Iterator[str]:
    queues: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for item in items:
        queues.setdefault(item.partition(": ")[0], []).append(item)
    while any(queues.values()):
        yield from [queue.pop() for queue in queues.values() if queue]


def _facts(message: BaseMessage) -> Iterator[Fact]:
    if message.type == "system":
        return
    text = message_text(message)
    if isinstance(message, ToolMessage):
        yield from _result_facts(text, message.status)
        return
    yield from _mentions(text)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield from _call_facts(call["name"], call["args"])


def _call_facts(name: str, args: Mapping[str, object]) -> Iterator[Fact]:
    shell = bool(_SHELL.search(name))
    for key, value in _leaves(args):
        if isinstance(value, str) and _is_command(key, value, shell):
            yield "command", value
            yield from _mentions(value[:_COMMAND_CHARS])
        else:
            yield from _named_fact(key, value)


def _is_command(key: str, value: str, shell: bool) -> bool:
    if not value.strip() or _PATH_KEY.search(key):
        return False
    if key.lower() in _COMMAND_KEYS:
        # One bare word is often a sub-command of an editor tool.
        return shell or " " in value.strip()
    return shell and key in ("input", "code", "query")


def _named_fact(key: str, value: object) -> Iterator[Fact]:
    """What the key of a JSON value says it is, else what its text mentions. Long text is content, not a reference."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return
    text = str(value).strip()
    if "\n" in text or len(text) > _ARGUMENT_CHARS:
        return
    if _PATH_KEY.search(key) and any(map(str.isalnum, text)) and "://" not in text:
        yield "path", text
    elif (_ID_KEY.search(key) and _ID_VALUE.fullmatch(text)) or (_CODE_KEY.search(key) and _CODE_VALUE.fullmatch(text)):
        yield "id", text
    else:
        yield from _mentions(text)


def _leaves(args: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Scalars of a JSON value with the nearest key above them, in order; a command given as a list is one scalar."""
    stack: list[tuple[str, object, int]] = [("", args, 0)]
    for _ in range(_MAX_LEAVES):
        if not stack:
            return
        key, value, depth = stack.pop()
        if isinstance(value, Mapping):
            children = [(str(name), child, depth + 1) for name, child in value.items()]
        elif isinstance(value, list):
            children = [(key, child, depth + 1) for child in _joined_command(key, value)]
        else:
            yield key, value
            continue
        if depth < _MAX_NESTING:
            stack.extend(reversed(children))


def _joined_command(key: str, value: list[object]) -> list[object]:
    if key.lower() in _COMMAND_KEYS and all(isinstance(word, str) for word in value):
        return [" ".join(map(str, value))]
    return value


def _result_facts(text: str, status: str) -> Iterator[Fact]:
    parsed = _json_object(text)
    if len(text) <= _ANSWER_CHARS:
        yield from _mentions(text)
    for key, value in parsed.items():
        if _ID_KEY.search(key) or _CODE_KEY.search(key):
            yield from _named_fact(key, value)
    for line in _errors(text, parsed, status):
        yield "error", line


def _json_object(text: str) -> dict[str, object]:
    if len(text) > _JSON_CHARS or not text.lstrip().startswith("{"):
        return {}
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _mentions(text: str) -> Iterator[Fact]:
    """URLs, paths and ids in running text, each once, by last mention."""
    text = preview(text, _WINDOW_CHARS, "")
    if "://" in text:
        yield from _urls(text)
        text = _URL_REST.sub(" ", text)
    if not text.isascii():
        yield from _quoted_paths(text)
    tokens = [token.rstrip(_TOKEN_END) for token in dict.fromkeys(reversed(_TOKEN.findall(text)))]
    for token in reversed(tokens):
        if not token.isalpha() and len(token) < MAX_ITEM_CHARS:
            yield from _token_fact(token)


def _urls(text: str) -> Iterator[Fact]:
    for rest in _URL_REST.finditer(text):
        scheme = _SCHEME.search(text[max(0, rest.start() - 5) : rest.start()])
        if scheme:
            yield "url", scheme[0] + _without_punctuation(rest[0][:MAX_ITEM_CHARS])


def _without_punctuation(url: str) -> str:
    """`url` without the punctuation of the sentence around it; a bracket that it opened itself stays."""
    url = url.rstrip(_PUNCTUATION)
    while url.endswith(")") and url.count(")") > url.count("("):
        url = url[:-1].rstrip(_PUNCTUATION)
    return url


def _quoted_paths(text: str) -> Iterator[Fact]:
    """File names in scripts that write no blanks between words, where only quotes say where a name begins."""
    for name in _QUOTED.findall(text):
        if not name.isascii() and _EXTENSION.search(name):
            yield "path", name


def _token_fact(token: str) -> Iterator[Fact]:
    path = _as_path(token)
    word = token.strip("./\\:@+~$-_")
    if path:
        yield "path", path
    elif not word.isalpha() and _ID.fullmatch(word):
        yield "id", word


def _as_path(token: str) -> str:
    path = _DRIVE_OR_HEAD.match(token.lstrip("@:+-").removeprefix("./"))
    return path[0] if path and _looks_like_path(path[0]) else ""


def _looks_like_path(path: str) -> bool:
    if "\\" in path:
        return path[1:3] == ":\\" and len(path) > 3
    slashes = path.count("/")
    if "//" in path or _NO_FILE.match(path):
        return False
    if not slashes:
        return bool(_FILE_NAME.fullmatch(path))
    extension = bool(_EXTENSION.search(path))
    if path.startswith(("/", "~/", "../")):
        return extension or (slashes > 1 and len(path) > 4)
    return extension or (slashes > 1 and bool(_FOLDER_LIKE.search(path)))


def _errors(text: str, parsed: Mapping[str, object], status: str) -> list[str]:
    text = _ANSI.sub("", preview(text, _WINDOW_CHARS, ""))
    lines = [*_json_errors(parsed, text), *_status_error(text, status), *_traceback_ends(text), *_error_texts(text)]
    unique = list(dict.fromkeys(line.strip() for line in lines))
    return unique if len(unique) <= _FIRST_ERRORS + _LAST_ERRORS else unique[:_FIRST_ERRORS] + unique[-_LAST_ERRORS:]


def _status_error(text: str, status: str) -> list[str]:
    if status != "error":
        return []
    return [next((line for line in text.splitlines() if line.strip()), "(no text)")]


def _json_errors(parsed: Mapping[str, object], text: str) -> list[str]:
    for key in _ERROR_KEYS:
        if parsed.get(key):
            return [_as_text(parsed[key])]
    status = parsed.get("status")
    failed = isinstance(status, str) and status.lower() in _FAILED
    failed = failed or parsed.get("success") is False or parsed.get("ok") is False
    return [text[:MAX_ITEM_CHARS]] if failed or any(parsed.get(key) for key in _EXIT_KEYS) else []


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _traceback_ends(text: str) -> list[str]:
    """The first line after each traceback that is not indented: the exception itself."""
    ends = []
    for block in text.split(_TRACEBACK)[1:]:
        lines = block.split("\n")[1:]
        ends.extend([line for line in lines if line.strip() and not line[0].isspace()][:1])
    return ends


def _error_texts(text: str) -> list[str]:
    hints = [hint for hint in (_ERROR_HINTS if text.isascii() else _ALL_ERROR_HINTS) if hint in text]
    if not hints:
        return []
    lines = [line[:300].rstrip() for line in text.split("\n") if any(hint in line for hint in hints)]
    return [line for line in lines if not _CODE_LINE.match(line) and _ERROR_LINE.match(line)]
