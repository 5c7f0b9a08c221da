"""What a provider refuses, how tokens are counted, and switches that should switch something."""

import json
from pathlib import Path
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langgraph_memory.context.tokens import count_message, estimator_for, load_counter
from tests.support.graphs import Bare, chat, rounds, size, text_of
from tests.support.models import GOOD, Scripted, Streaming
from tests.support.texts import texts

from ..texts import ENCODING, count_text, message_tokens
from .agents import AGENTS, DEEPAGENTS, LANGCHAIN, Thread, Wanted, prose
from .outcome import OURS, Outcome, judged, scenario

GROUP = "context"
LIMIT = 5_000


@scenario(
    "8",
    GROUP,
    "The provider's window is smaller than the known one: after its refusal the call is made once more, also while "
    "streaming, and the request stands there once",
    AGENTS,
    ("AgentScope", "Mycel"),
)
async def refused(contender: str, folder: Path) -> Outcome:
    seen = [f"{way}: {await _refused(contender, folder, way)}" for way in ("invoke", "stream")]
    return judged(all(each.endswith("answered") for each in seen), ", ".join(seen))


async def _refused(contender: str, folder: Path, way: str) -> str:
    def reply(messages: list[BaseMessage]) -> str:
        if sum(map(message_tokens, messages)) > LIMIT:
            raise ContextOverflowError("prompt is too long")
        return "fine"

    model, side = Streaming(replies=reply), Scripted(replies=GOOD)
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 20_000)), way)
    try:
        for turn in range(30):
            given = {"messages": [("user", prose(f"said{turn}x", 900))]}
            if way == "invoke":
                await thread.graph.ainvoke(given, thread.config)
            else:
                async for _ in thread.graph.astream(given, thread.config, stream_mode="messages"):
                    pass
    except ContextOverflowError:
        return "the run aborts"
    humans = [text_of([message]) for message in model.last if isinstance(message, HumanMessage)]
    return "answered" if sum("said29x" in text for text in humans) == 1 else "lost or doubled"


ENGLISH = (
    "Yesterday we talked about when the new booking system could open. The developers want to publish a first version "
    "early next month, but some of us think that there is too little time for testing. In the end we agreed to use it "
    "ourselves for two weeks, and to tell the customers only when nothing serious has come up by then."
)
ROWS = [
    {"id": number, "name": f"pier {number}", "open": number % 2 == 0, "depth_m": number * 1.7} for number in range(30)
]
CHECKED = texts("check")
TEXTS = {
    "English": " ".join([ENGLISH] * 6),
    "Chinese": "".join(CHECKED["simplified chinese"]),
    "Japanese": "".join(CHECKED["japanese"]),
    "hex": CHECKED["hex"][0],
    "JSON": json.dumps(ROWS),
}


@scenario(
    "12",
    GROUP,
    "Token counts against the encoding itself, without options: within 15 % for English, Chinese, Japanese, hex, JSON",
    AGENTS,
    ("AgentScope", "Mycel"),
)
async def counted(contender: str, folder: Path) -> Outcome:
    counter = _counter(contender, folder)
    shares = {kind: counter(text) / count_text(text) for kind, text in TEXTS.items()}
    figure = ", ".join(f"{kind} {share:.2f}" for kind, share in shares.items())
    if contender == OURS:
        estimated = [estimator_for(ENCODING).text(text) / count_text(text) for text in TEXTS.values()]
        figure += f"; without ranks {min(estimated):.2f} to {max(estimated):.2f}"
    return judged(all(0.85 <= share <= 1.15 for share in shares.values()), figure)


def _counter(contender: str, folder: Path) -> Any:
    """Tokens of a text, as the contender counts those of a message."""
    if contender == OURS:
        return lambda text: count_message(load_counter("auto"), HumanMessage(text))
    if contender == DEEPAGENTS:
        from deepagents.backends import FilesystemBackend
        from deepagents.middleware.summarization import SummarizationMiddleware as Summarization

        made: Any = Summarization(Scripted(), backend=FilesystemBackend(root_dir=folder, virtual_mode=True))
        return lambda text: made.token_counter([HumanMessage(text)])
    if contender == LANGCHAIN:
        ready = SummarizationMiddleware(Scripted())
        return lambda text: ready.token_counter([HumanMessage(text)])
    import langmem  # type: ignore[import-untyped, unused-ignore]  # noqa: F401 - whether it is installed

    return lambda text: count_tokens_approximately([HumanMessage(text)])


TALK = [*chat(30, chars=400), HumanMessage("go on", id="go")]
LOOKS = [HumanMessage("look", id="h"), *rounds(12, chars=5_000), HumanMessage("go on", id="go")]
NOTHING = {"budget.system_tokens": 0, "budget.tools_tokens": 0, "budget.response_tokens": 0}
SWITCHES: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "compaction.enabled": (TALK, NOTHING, False),
    "compaction.min_messages": (TALK, NOTHING, 500),
    "compaction.reserve_tokens": (TALK, {**NOTHING, "compaction.trigger_ratio": 1.0}, 0),
    "pruning.trim_tool_results": (LOOKS, {"context_window": 200_000, "pruning.min_reclaim_tokens": 0}, False),
}
"""A history, settings, and the value that changes what is shown of it."""


@scenario("13", GROUP, f"Switches that change something: {', '.join(SWITCHES)}", (OURS,), ("Mycel",))
async def switched(contender: str, folder: Path) -> Outcome:
    window = int(size(TALK) / 0.8)
    changed = []
    for name, (history, given, value) in SWITCHES.items():
        settings = {"context_window": window, "tokenizer": ENCODING, **given}
        before, after = [await Bare(each).call(history) for each in (settings, {**settings, name: value})]
        changed.append(text_of(before) != text_of(after))
    return judged(all(changed), f"{sum(changed)} of {len(changed)}")
