import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.names import MOST, READABLE, safe_name

IDS = st.text(max_size=400) | st.from_regex(r"[a-zA-Z0-9_.~/-]{0,80}", fullmatch=True)
SAFE = re.compile(r"[a-z0-9_~-]{1,100}")


@pytest.mark.parametrize("name", ["t-1", "ada", "_x", "0", "a" * MOST, "550e8400-e29b-41d4-a716-446655440000"])
def test_a_plain_id_is_its_own_name(name):
    assert safe_name(name) == name


UNSAFE = ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "Ada", "ada.", "con", "nul", "com1", "é", "用户", "😀", "-x"]
LONG = ["a" * (MOST + 1), "a" * 300, " a", "a~b", "\udc80", "a\n", "~", "C:", "a*", "a?", "%"]


@pytest.mark.parametrize("text", UNSAFE + LONG)
def test_any_other_is_made_safe(text):
    name = safe_name(text)
    assert name != text and SAFE.fullmatch(name) and not name.startswith(("-", ".")) and len(name) <= READABLE + 33


@given(IDS, IDS)
def test_two_ids_never_share_a_name_whatever_the_case(a, b):
    assert (safe_name(a).lower() == safe_name(b).lower()) == (a == b)


@given(IDS)
def test_a_name_is_safe_and_no_name_of_another_id(text):
    name = safe_name(text)
    assert SAFE.fullmatch(name)
    assert safe_name(name) == name or "~" in name


def test_a_readable_part_stays_in_front_of_the_digest():
    assert safe_name("Ada Lovelace").startswith("ada-lovelace~")


def test_reserved_names_are_never_given():
    assert safe_name("spill", reserved={"spill"}).startswith("spill~")
