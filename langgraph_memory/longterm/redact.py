"""Secrets are taken out of what is about to be remembered: keys, passwords, card numbers become `[redacted]`.

Memory is kept for long, in plain files, and shown to models again and again, so a secret has no place in it. What only
looks random stays: git hashes, UUIDs, order ids, paths and phone numbers are what an agent has to remember. So a key is
known by the form its issuer gives it or by the name it is assigned to, a password by the word before it, a webhook by
its host, a card number by its check digit.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

_B = r"(?<![A-Za-z0-9_-])"
"""Before a key; `\\b` would see one in the middle of a hyphenated name."""

_KEYS = re.compile(
    _B
    + r"(?:"
    + r"|".join(
        (
            r"sk-(?:ant-|proj-|or-v1-|svcacct-|admin-|live-|test-)?(?=[A-Za-z-]*[0-9_])[A-Za-z0-9_-]{16,}",
            r"(?:sk|pk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",
            r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|dckr_[po]at_[A-Za-z0-9_-]{20,}",
            r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[A-Za-z0-9_-]{16,}",
            r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|fig[duo]_[A-Za-z0-9_-]{32,}|m0-[A-Za-z0-9]{32,}",
            r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
            r"xox[abeprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}",
            r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}",
            r"hf_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}",
            r"tvly-[A-Za-z0-9-]{16,}|pplx-[A-Za-z0-9]{20,}|lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}|fw_[A-Za-z0-9]{20,}",
            r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|dop_v1_[a-f0-9]{40,}|shpat_[a-fA-F0-9]{32}",
            r"SG\.[\w-]{16,}\.[\w-]{16,}|key-[a-f0-9]{32}|sq0[a-z]{3}-[\w-]{20,}|AC[a-f0-9]{32}(?![a-f0-9])",
            r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
            r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
        )
    )
    + r")"
)
_BLOCK = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_URL = re.compile(r"(?<=://)([^\s/:@'\"<>]*):([^\s/@'\"<>]+)@(?=[\w\[.-])")
"""User and password of a connection string."""
_HOOK = re.compile(
    r"((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/[0-9]{1,20}"
    r"|webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook|hooks\.zapier\.com/hooks/catch"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook|hook\.[a-z0-9]{1,9}\.make\.com"
    r"|maker\.ifttt\.com/trigger/\w{1,64}/with/key)/)[\w.~%@:/+=-]{7,300}\w=*"
    r"|(api\.telegram\.org/(?:file/)?bot)[0-9]{1,20}(?::|%3A)[\w-]{8,}"
    r"|([?&](?:sig|key)=)(?=[\w.~%+/=-]{0,99}[0-9])[\w.~%+/=-]{15,300}[\w=]",
    re.IGNORECASE | re.ASCII,
)
"""Addresses to which whoever knows them may write: the path is the secret, or what signs it."""
_USER = re.compile(
    r"(?<![\w-])(?:-[A-Za-z]{0,4}[uU][^\S\n]{0,3}|--(?:proxy-)?user(?:=|[^\S\n]{1,3}))"
    r"(?:(?P<quote>[\"'])[^\s\"':]{0,99}:(?P<quoted>[^\"'\n]{1,200})(?=(?P=quote))"
    r"|[^\s\"'`:]{0,99}:(?P<value>[^\s\"'`，。；]{1,200}))"
)
"""User and password behind an option of curl; other programs have a group there."""
_CURL_CHARS = 500
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_COMMAND_END = re.compile(r"(?<![\\^`])\n|[;|]|&&")
_HEADER = re.compile(
    r"\b((?:bearer|basic)\s+|(?:authorization|x-api-key|api-key|cookie)\s*:\s*(?:(?:bearer|basic|token)\s+)?)"
    r"(?!\[redacted)((?=[A-Za-z._~+/-]*[0-9=])[A-Za-z0-9._~+/-]{12,}=*)",
    re.IGNORECASE,
)

_SECRET_WORDS = (
    r"pass(?:word|wd|phrase|code)?|pwd|passwort|kennwort|contraseña|contrasena|senha|mot de passe|wachtwoord|parola"
    r"|passord|lösenord|hasło|heslo|jelszó|şifre|parool|palavra-passe|clave secreta|mật khẩu|kata sandi"
    r"|пароль|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|كلمة (?:السر|المرور)|סיסמה|סיסמא|पासवर्ड|รหัสผ่าน"
    r"|pin(?:[- ]?code)?|secret|client[_ -]?secret|(?:api|access|secret|private|auth|encryption)[_ -]?(?:key|token)"
    r"|token|apikey|credentials?|clé (?:api|secrète)|api[- ]?schlüssel|密钥|密鑰|秘钥|令牌|api ?キー|ключ api|токен"
)
_WORD = r"(?<![A-Za-z0-9\u00c0-\u024f\u0400-\u04ff])"
"""Before a word; scripts that put no blanks between words have none."""
_VALUE = r"(?P<quote>[\"'`“«「]?)(?P<value>[^\s\"'`“”«»「」,;，；。]{%d,200})"
_ASSIGNED = re.compile(
    rf"(?P<before>{_WORD}(?:[A-Za-z0-9]{{1,20}}[_-]){{0,4}}(?:{_SECRET_WORDS})(?:[_-][A-Za-z0-9]{{1,20}}){{0,2}}"
    rf"[\"'`*]{{0,3}}\s{{0,3}}(?:=>?|[:：]=?)\s{{0,3}}){_VALUE % 4}",
    re.IGNORECASE,
)
_TOLD = re.compile(
    rf"(?P<before>{_WORD}(?:{_SECRET_WORDS})[^\S\n]?(?:(?:for|to|of|von|für|de|para|du|от|для)[^\S\n][^\n.:=]{{1,40}}?)?"
    r"[^\S\n]?(?:(?:is|was|ist|war|lautet|es|est|é|è|—|–|-)[^\S\n]|是|为|為|は|[은는이가][^\S\n]?|هي[^\S\n]?)"
    rf"(?:now[^\S\n]|set to[^\S\n]|jetzt[^\S\n]|ahora[^\S\n])?[^\S\n]?){_VALUE % 4}",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"(?P<before>{_WORD}(?:{_SECRET_WORDS})(?:[^\S\n]{{1,3}}|(?<=[\u3040-\u9fff\uac00-\ud7a3]))[\"'`“«「(]?)"
    r"(?P<value>[A-Za-z0-9_+/=~-]{16,200})(?![\w.:/])",
    re.IGNORECASE,
)
"""A key that only stands behind the word for one."""
_OPTION = re.compile(
    r"(?P<before>(?<![\w-])--(?:[a-z]{1,20}-){0,3}(?:password|passwd|passphrase|token|secret|api-?key|access-?key)"
    rf"[^\S\n]{{1,3}}){_VALUE % 4}",
    re.IGNORECASE,
)
_STAGE = r"(?:[_-](?:prod|production|live|dev|development|test|staging|old|new|b64|base64|[0-9]{1,3}))?"
_CHARS = r"[^\s\"'`“”«»「」\\,;，；。、(){}\[\]<>|]"
_NAMED = re.compile(
    rf"(?P<word>key|token|secret|pwd|pass(?:word|wd|phrase|code)?){_STAGE}"
    r"\\{0,3}[\"'`*]{0,3}\s{0,3}(?:={1,3}>?|[:：]=?)\s{0,3}"
    rf"(?=\\{{0,3}}[\"'`](?P<quoted>[^\"'`\\\n]{{4,300}}+)\\{{0,3}}[\"'`]|(?P<value>{_CHARS}{{4,300}}+)(?![(\[]))",
    re.IGNORECASE,
)
"""The end of a name, in any way in which names are assigned to; the beginning is looked at where this is found."""
_SET = re.compile(
    r"(?P<before>(?<![A-Za-z0-9_])(?:setx|setenv|set[^\S\n]{1,3}-[a-z]{1,3}|ENV)[^\S\n]{1,3}"
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60}?)(?P<word>key|token|secret|pwd|pass(?:word|wd|phrase|code)?)"
    rf"{_STAGE}[^\S\n]{{1,3}}[\"']?)(?P<value>{_CHARS}{{4,300}}+)",
    re.IGNORECASE,
)
"""A variable of the environment that is set without a sign between name and value."""
_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_NAME_LENGTH = 60
_OTHER_KEYS = (
    *("primary", "foreign", "sort", "partition", "public", "pub", "cache", "hash", "range", "shard", "group", "row"),
    *("idempotency", "hot", "short", "unique", "composite", "natural", "surrogate", "translation", "object", "index"),
    *("lookup", "map", "dict", "redis", "issue", "project", "ticket", "gpg", "pgp", "dedup", "routing", "i18n"),
)
"""Before `key`, of those that open nothing."""
_OTHER_PASSES = ("by", "com", "encom", "sur", "tres", "under", "over")
_PLACE = re.compile(r"[~.]{0,2}/|\\|[A-Za-z]:[\\/]|.*(?:://|\.[A-Za-z][A-Za-z0-9]{1,4}$)")
_RUN = re.compile(r"[A-Za-z]+|[0-9]+")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_WORDLIKE = re.compile(r"[A-Za-z]*[0-9]{0,6}")
_CARD = re.compile(
    r"(?<![A-Za-z0-9_.+/#-])(?:[3-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?![A-Za-z0-9_-])"
)


def redact(text: str) -> str:
    """`text` with every secret that is known by its form written as `[redacted]`. Idempotent."""
    if not text:
        return text
    text = _BLOCK.sub(REDACTED, text)
    text = _URL.sub(rf"\1:{REDACTED}@", text)
    text = _KEYS.sub(REDACTED, text)
    text = _HOOK.sub(lambda found: f"{found[1] or found[2] or found[3]}{REDACTED}", text)
    text = _HEADER.sub(rf"\1{REDACTED}", text)
    text = _USER.sub(_if_for_curl, text)
    text = _ASSIGNED.sub(_unless_harmless, text)
    text = _without_named(text)
    text = _SET.sub(_if_set, text)
    text = _TOLD.sub(_if_secret, text)
    text = _OPTION.sub(_if_secret, text)
    text = _BARE.sub(_if_random, text)
    return _CARD.sub(_unless_no_card, text)


_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|undefined|required|optional|missing|invalid|wrong|incorrect|expired|unknown|empty|string"
    r"|str|int|bool|bytes|any|text|os\.|process\.|env\.|await\b|new\b|[\w.]+\[|\w+\.\w+\.?\w*;|config\.|settings\.|self\.|this\.|getenv|\$|\{|<|\[|\*{3}|x{3,}"
    r"|\.{3}|…|your|https?://|[~./]*/)",
    re.IGNORECASE,
)
"""Beginnings of what stands where a secret would, and is none."""


def _unless_harmless(found: re.Match[str]) -> str:
    value = found["value"]
    if value.startswith(REDACTED) or _HARMLESS.match(value) or "(" in value or _is_no_secret(found["before"], value):
        return found[0]
    return f"{found['before']}{found['quote']}{REDACTED}"


def _is_no_secret(before: str, value: str) -> bool:
    """Tokens are counted more often than given away, and a pin with the name of one of a chip, as GPIO17, is no PIN."""
    if "tok" in before.lower():
        return re.fullmatch(r"[\d.,]+[kKmM]?", value) is not None
    return "pin" in before.lower() and re.fullmatch(r"GPIO_?\d{1,2}\.?", value, re.IGNORECASE) is not None


def _if_secret(found: re.Match[str]) -> str:
    """In a sentence a secret is told from a word by what no word has: a digit or a mark, or quotes around it."""
    value = found["value"].rstrip(".!?)")
    odd = any(map(str.isdigit, value)) or re.search(r"[@#$%^&*!+=~_]", value) is not None
    if (
        not (odd or found["quote"])
        or _HARMLESS.match(value)
        or REDACTED in value
        or _is_no_secret(found["before"], value)
    ):
        return found[0]
    return f"{found['before']}{found['quote']}{REDACTED}{found['value'][len(value) :]}"


def _if_for_curl(found: re.Match[str]) -> str:
    group = "value" if found["quoted"] is None else "quoted"
    before = found.string[max(0, found.start() - _CURL_CHARS) : found.start()]
    _, curl, between = before.rpartition("curl")
    if not curl or found[group][0] in "$%{<[" or _COMMAND_END.search(_QUOTED.sub("", between)):
        return found[0]
    return found[0].removesuffix(found[group]) + REDACTED


def _without_named(text: str) -> str:
    """`text` without the values of names such as PGPASSWORD, STRIPE_KEY, accountKey."""
    parts, done = list[str](), 0
    for found in _NAMED.finditer(text):
        group = "value" if found["quoted"] is None else "quoted"
        start, value = found.start(group), found[group]
        if found["word"].lower() in ("key", "token"):
            value = value.partition("&")[0]
        before = text[max(done, found.start() - _NAME_LENGTH) : found.start()]
        name = before[len(before.rstrip(_NAME_CHARS)) :]
        if found.start() >= done and _is_named_secret(name, found["word"], value, group == "quoted"):
            parts += text[done:start], REDACTED
            done = start + len(value)
    return "".join([*parts, text[done:]])


def _if_set(found: re.Match[str]) -> str:
    if not _is_named_secret(found["name"], found["word"], found["value"], False):
        return found[0]
    return f"{found['before']}{REDACTED}"


def _is_named_secret(name: str, word: str, value: str, quoted: bool) -> bool:
    """Whether a value is the secret that a name promises, which is `word` with `name` before it."""
    if REDACTED in value or _PLACE.match(value) or (_HARMLESS.match(value) and not _is_random(value)):
        return False
    before, kind = name.rstrip("_-."), word.lower()
    glued, upper = bool(name) and name == before, (before + word).isupper()
    cased = glued and word[0].isupper() and not before[-1].isupper()
    if kind == "key":
        if not before or before.lower().endswith(_OTHER_KEYS) or (glued and not upper and not cased):
            return False
        return _is_random(value) or (upper and not glued and _is_odd(value))
    if _is_no_secret(word, value) or (kind == "pass" and before.lower().endswith(_OTHER_PASSES)):
        return False
    if kind == "token":
        return not glued or ((upper or cased) and _is_odd(value))
    if not glued or upper:
        return True
    return (cased or len(word) > len("pass")) and (quoted or re.search(r"[0-9@#$%^&*!+=~_]", value) is not None)


def _is_random(value: str) -> bool:
    """Whether letters and digits change too often in it for a word with a number."""
    return any(len(part) >= 12 and len(_RUN.findall(part)) >= 3 for part in _PARTS.split(value))


def _is_odd(value: str) -> bool:
    """Whether a value is no word, and no words and numbers that are parted, as `user_42` is."""
    parts = [part for part in _PARTS.split(value) if part]
    if len(parts) > 1 and not value.isupper() and all(map(_WORDLIKE.fullmatch, parts)):
        return False
    return len(value) >= 16 or (len(value) >= 6 and not value.startswith("0x") and any(map(str.isdigit, value)))


def _if_random(found: re.Match[str]) -> str:
    return f"{found['before']}{REDACTED}" if _is_random(found["value"]) else found[0]


def _unless_no_card(found: re.Match[str]) -> str:
    digits = [int(char) for char in found[0] if char.isdigit()]
    return REDACTED if 13 <= len(digits) <= 19 and len(set(digits)) > 1 and _luhn(digits) else found[0]


def _luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
