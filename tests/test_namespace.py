from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_memory.namespace import OWN_FOLDERS, folder_of, namespace_of

PARTS = st.lists(st.text(min_size=1, max_size=80) | st.sampled_from(sorted(OWN_FOLDERS)), max_size=3).map(tuple)


@dataclass
class Context:
    user_id: str = ""
    team: str = ""


@pytest.mark.parametrize(
    "configurable,context,found",
    [
        ({"user_id": "ada"}, None, "ada"),
        ({"user_id": 7}, None, "7"),
        ({"user_id": UUID(int=1)}, None, str(UUID(int=1))),
        ({}, {"user_id": "ada"}, "ada"),
        ({}, Context("ada"), "ada"),
        ({"langgraph_auth_user_id": "ada"}, None, "ada"),
        ({"user_id": "ada", "langgraph_auth_user_id": "server"}, Context("bob"), "ada"),
        ({"user_id": ""}, Context("bob"), "bob"),
    ],
)
def test_a_value_is_looked_up_in_configurable_then_context_then_the_authenticated_user(configurable, context, found):
    assert namespace_of(("{user_id}",), configurable, context) == (found,)


@pytest.mark.parametrize("value", [None, "", "  ", True, [], {}, 1.5, b"ada"])
def test_without_a_usable_value_there_is_no_namespace(value):
    assert namespace_of(("{user_id}",), {"user_id": value}) is None
    assert namespace_of(("team", "{team}"), {"user_id": "ada"}) is None


def test_the_authenticated_user_stands_in_for_the_user_only():
    assert namespace_of(("{team}",), {"langgraph_auth_user_id": "ada"}) is None


def test_text_around_a_name_stays_and_a_part_without_names_is_shared():
    assert namespace_of(("team-{team}", "all"), {"team": "x"}) == ("team-x", "all")
    assert namespace_of((), {}) == ()


def test_a_value_with_braces_is_not_filled_again():
    assert namespace_of(("{a}",), {"a": "{b}", "b": "secret"}) == ("{b}",)


@given(PARTS, PARTS)
def test_namespaces_never_share_a_folder_nor_leave_the_workspace(a, b):
    root = Path("/w")
    one, other = folder_of(root, a), folder_of(root, b)
    assert (str(one).lower() == str(other).lower()) == (a == b)
    assert one.is_relative_to(root) and ".." not in one.parts
    assert not set(one.relative_to(root).parts) & OWN_FOLDERS
