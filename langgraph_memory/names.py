"""Names of files and folders that are made from ids: readable where that is safe, and never the same for two ids.

An id of lower-case letters, digits, `_` and `-` is its own name. Any other — with capitals, dots, slashes, other
scripts, too long, or a name that means something to a file system — is given a digest behind a `~`, which no id that
is its own name can hold. So no id leaves its folder, and none meets another one, also where case is not told apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import blake2b

MOST = 64
READABLE = 32
"""Characters of an id that are shown before its digest."""

_SAFE = re.compile(rf"[a-z0-9_][a-z0-9_-]{{0,{MOST - 1}}}")
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_DEVICES = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")


def safe_name(text: str, *, reserved: Collection[str] = ()) -> str:
    """The name for `text`; those in `reserved` are never given."""
    if _SAFE.fullmatch(text) and not _DEVICES.fullmatch(text) and text not in reserved:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    readable = _UNSAFE.sub("-", text.lower()[:READABLE]).strip("-")
    return f"{readable}~{digest}"
