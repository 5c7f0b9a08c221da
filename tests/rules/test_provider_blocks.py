"""Messages as single providers and servers make them: what is shown of them, what is read of them, and what is not."""

import pytest
from langchain_core.messages import AnyMessage, HumanMessage

from tests.support.graphs import (
    ENTRIES,
    calls,
    chat,
    result,
    sent,
    summaries_in,
    text_of,
)
from tests.support.validity import faults

REQUEST = "Book berth 9 for 04:30, and never berth 7."


# Notifications of the program


def notified(at: int, kind: str = "notification") -> list[AnyMessage]:
    """A long turn in whose middle a notification comes, behind the result of round `at`."""
    news = HumanMessage("The build has ended.", id="n", additional_kwargs={"lgm_kind": kind})
    loop = [[calls(f"c{k}", id=f"ai{k}"), result(f"c{k}", "row " * 300, id=f"t{k}")] for k in range(60)]
    return [
        *chat(3, chars=300),
        HumanMessage(REQUEST, id="request"),
        *(m for one in loop[:at] for m in one),
        news,
        *(m for one in loop[at:] for m in one),
    ]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("at", [0, 5, 30, 59, 60])
async def test_a_notification_does_not_displace_the_request(entry, at):
    view = await sent(entry, notified(at), {"context_window": 16000})
    assert REQUEST in text_of(view)
    assert summaries_in(view) == 1
    assert not faults(view)


async def test_a_notification_is_shown_while_it_is_new():
    view = await sent("node", notified(60), {"context_window": 16000})
    assert "The build has ended." in text_of(view)


async def test_a_human_message_of_another_kind_is_the_request():
    view = await sent("node", notified(30, kind="message"), {"context_window": 16000})
    assert "The build has ended." in text_of(view)
