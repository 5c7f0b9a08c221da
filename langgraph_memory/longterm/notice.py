"""What is worth remembering in a message, found without a model: whole sentences, word for word.

It is the rung below a model that extracts memories, so it must always work, and costs nothing. It looks at what people
wrote: what they ask to be remembered, what they like, who they are, what was decided, when something is due, what is to
be done from now on. It does not judge or rephrase. Questions are left out, and so is what was pasted: code, logs,
quotes, tables, long documents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from ..context.text import clean_text, one_line
from .cues import CUES, EVENT, PASSING, WHEN, Kind

LEAST_CHARS, MOST_CHARS = 4, 300
EDGE_CHARS = 800
"""Of a long text, which is mostly pasted, only so much at its beginning and its end is looked at."""
MOST_ENTRIES = 8
"""Sentences that one message may give."""

_FENCE = re.compile(
    r"(?:```|~~~).*?(?:```|~~~|\Z)|<(pre|code|file|document|attachment)\b[^>]*>.*?(?:</\1>|\Z)", re.DOTALL
)
_PASTED = re.compile(
    r"\s*(?:>|\||\$ |# |>>> |\+{3} |-{3} |@@ |diff --git|at [\w.$<>]+\(|File \"|Traceback|[{}\[\]<]|//|/\*|\*/"
    r"|import \w|from \w+ import"
    r"|(?:const|let|var|def|class|function|return|public|private|export|#include)\b.{0,200}[;{:(=]|\d+[:|\t]"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL)\b)|.*(?:[;{}]"
    r"|=>|\);?)\s*$"
)
_END = re.compile(
    r"(?<=[。！？!?…؟।])[\"'”’」』)\]]*\s*(?=\S)|(?<=[^\W\d_][.])(?<!\b[A-Za-z]\.)(?<!\b(?:Mr|Ms|Dr|St|vs|Nr|St)\.)"
    r"(?<!\b(?:Mrs|etc|e\.g|i\.e|bzw|z\.B)\.)[\"'”’)]*\s+(?=[\W\d]*[^\W\d_a-z])|(?<=[\d)\]%][.])\s+(?=[A-ZА-ЯÀ-Ý])"
    r"|\n+"
)
_QUESTION = re.compile(
    r"[?？؟]\W*$|(?:吗|嗎|呢|么|什么|什麼|哪里|哪裡|哪儿|谁|誰|多少|怎么样|怎麼樣|怎么办|好不好|是不是|对吧|對吧|吧)\W*$"
    r"|(?:ですか|ますか|かな|でしょうか)\W*$"
    r"|(?:까요?|나요|니)\W*$|क्या\W*$",
)
_ASKS = re.compile(
    r"\W*(?:what|why|how|who|where|when|which|is|are|do|does|did|can|could|would|should|will|tell me|guess what|was"
    r"|were|have you"
    r"|请问|請問|为什么|為什麼|怎么|怎麼|能不能|可以(?:帮|请)|您?知道|что|как|почему|где|когда"
    r"|هل|ما هو|كيف|qué|cómo|dónde|pourquoi|comment|est-ce|warum|wie|wer|wo|was|wann|por que|como|onde|क्या)\b",
    re.IGNORECASE,
)
_LEADING = re.compile(r"^(?:[-*+•·]|\d{1,2}[.)、])\s*")


class Noticed(NamedTuple):
    text: str
    kind: Kind


def notice(text: str) -> list[Noticed]:
    """Sentences of a text by a person that are worth remembering, in their order, each once."""
    found: dict[str, Noticed] = {}
    for sentence in _sentences(clean_text(text)):
        if (kind := _kind(sentence)) is not None:
            found.setdefault(sentence.casefold(), Noticed(one_line(sentence, MOST_CHARS), kind))
    return list(found.values())[:MOST_ENTRIES]


def _kind(sentence: str) -> Kind | None:
    """Why a sentence is worth remembering, None where it is not."""
    if not LEAST_CHARS <= len(sentence) <= 3 * MOST_CHARS:
        return None
    plain = unicodedata.normalize("NFKC", sentence).replace("’", "'")
    if _QUESTION.search(plain):
        return None
    if PASSING.search(plain):
        return None
    if CUES["remember"].search(plain):
        return "remember"
    if _ASKS.match(plain):
        return None
    for kind, cue in CUES.items():
        if cue.search(plain):
            return kind
    return "date" if EVENT.search(plain) and WHEN.search(plain) else None


def _sentences(text: str) -> Iterator[str]:
    text = _FENCE.sub("\n", text)
    parts = (text,) if len(text) <= 2 * EDGE_CHARS else (text[:EDGE_CHARS], text[-EDGE_CHARS:])
    for part in parts:
        lines = [line for line in part.splitlines() if not _PASTED.match(line)]
        for sentence in _END.split("\n".join(lines)):
            if sentence and (tidy := _LEADING.sub("", " ".join(sentence.split()))):
                yield tidy
