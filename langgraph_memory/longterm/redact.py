"""Secrets are taken out of what is about to be remembered: keys, passwords, card numbers become `[redacted]`.

Memory is kept for long, in plain files, and shown to models again and again, so a secret has no place in it. What only
looks random stays: git hashes, UUIDs, order ids, paths and phone numbers are what an agent has to remember. So a key is
known by the form its issuer gives it, a password by the word before it, a card number by its check digit.
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
            r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
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
_CARD = re.compile(r"(?<![\w.+/#-])(?:[3-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}|3[47]\d{2}[ -]?\d{6}[ -]?\d{5})(?![\w-])")


def redact(text: str) -> str:
    """`text` with every secret that is known by its form written as `[redacted]`. Idempotent."""
    if not text:
        return text
    text = _BLOCK.sub(REDACTED, text)
    text = _URL.sub(rf"\1:{REDACTED}@", text)
    text = _KEYS.sub(REDACTED, text)
    text = _HEADER.sub(rf"\1{REDACTED}", text)
    text = _ASSIGNED.sub(_unless_harmless, text)
    text = _TOLD.sub(_if_secret, text)
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


def _unless_no_card(found: re.Match[str]) -> str:
    digits = [int(char) for char in found[0] if char.isdigit()]
    return REDACTED if 13 <= len(digits) <= 19 and len(set(digits)) > 1 and _luhn(digits) else found[0]


def _luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
