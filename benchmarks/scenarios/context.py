"""Long conversations and long turns: what is summarised how often, and whether what is sent stays valid and stable."""

from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from tests.support.graphs import calls, filled, grab, looping, result, rounds, text_of
from tests.support.models import Scripted

from ..peers import POLICIES, Setting
from ..ruler import halves, shared_front, shows_request
from ..summariser import ScriptedSummariser
from ..texts import count_text, fingerprint, message_tokens
from .agents import AGENTS, DEEPAGENTS, LANGCHAIN, LANGMEM, Thread, Wanted, prose
from .outcome import DOES_NOT, OURS, Outcome, counted, judged, scenario

GROUP = "context"
PEER_POLICIES = {LANGCHAIN: "langchain", DEEPAGENTS: "deepagents", LANGMEM: "langmem", OURS: "ours"}
TURNS = 200
CALLS = 200
ROUNDS = 40
HANDFUL = 10


@scenario("1", GROUP, "The same 24 messages, over the trigger, in five model calls: one summary", AGENTS, ("Mycel",))
async def same_history(contender: str, folder: Path) -> Outcome:
    side = ScriptedSummariser(profile={"max_input_tokens": 32_000})
    policy = POLICIES[PEER_POLICIES[contender]](Setting(side, 32_000, folder))
    said = [HumanMessage, AIMessage] * 12
    history = [kind(prose(f"said{place}x", 5_000), id=f"m{place}") for place, kind in enumerate(said)]
    for _ in range(5):
        await policy.view(history)
        await policy.rest()
    return judged(len(side.exchanges) == 1, counted(len(side.exchanges), "summary", "summaries"))


@scenario(
    "2",
    GROUP,
    f"{TURNS} turns of 1,500 characters a message in a window of 20,000: what is summarised fits the window, and "
    "all of it is less than twice the talk",
    AGENTS,
    ("Mycel",),
)
async def long_chat(contender: str, folder: Path) -> Outcome:
    side = ScriptedSummariser(profile={"max_input_tokens": 20_000})
    model = Scripted(replies=lambda messages: prose(f"answer-{len(messages)}", 1_500))
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 20_000)))
    said = 0
    for turn in range(TURNS):
        text = prose(f"question-{turn}", 1_500)
        said += 2 * count_text(text)
        await thread.say(text)
    sizes = [count_text(prompt) for prompt, _ in side.exchanges]
    figure = f"{len(sizes)} summaries, the largest input {max(sizes, default=0):,}, {sum(sizes) / said:.1f} × the talk"
    return judged(sizes and max(sizes) <= 20_000 and sum(sizes) < 2 * said, figure)


@scenario(
    "3",
    GROUP,
    f"One turn of {ROUNDS} tool rounds, 60,000 tokens in a window of 20,000: every call fits, is valid and holds "
    "the request",
    AGENTS,
    ("Mycel",),
)
async def long_turn(contender: str, folder: Path) -> Outcome:
    side = ScriptedSummariser(profile={"max_input_tokens": 20_000})
    model = Scripted(replies=looping(ROUNDS))
    tools = [grab(6_000)]
    await Thread(AGENTS[contender](Wanted(model, side, folder, 20_000, tools))).say(REQUEST)
    views = [request.messages for request in model.requests]
    over = sum(sum(map(message_tokens, view)) > 20_000 for view in views)
    invalid = sum(halves(view) > 0 for view in views)
    lost = sum(not shows_request([HumanMessage(REQUEST)], view) for view in views)
    figure = f"of {len(views)} calls {over} over the window, {invalid} invalid, {lost} without the request"
    return judged(len(views) == ROUNDS + 1 and not (over or invalid or lost), figure)


REQUEST = "Find out why the nightly build has been failing since Tuesday, and mend it without touching the tests."


@scenario(
    "4",
    GROUP,
    f"{CALLS} model calls with messages of 300 characters, a trigger of 50 messages, 8,000 tokens kept: "
    f"at most {HANDFUL} summaries",
    AGENTS,
    ("AgentScope",),
)
async def often_triggered(contender: str, folder: Path) -> Outcome:
    if contender == LANGMEM:
        return DOES_NOT
    side = ScriptedSummariser(profile={"max_input_tokens": 64_000})
    model = Scripted(replies=lambda messages: prose(f"answer-{len(messages)}", 300))
    wanted = Wanted(model, side, folder, 64_000, trigger=("messages", 50), keep=8_000)
    thread = Thread(AGENTS[contender](wanted))
    for turn in range(CALLS):
        await thread.say(prose(f"question-{turn}", 300))
    return judged(0 < len(side.exchanges) <= HANDFUL, counted(len(side.exchanges), "summary", "summaries"))


@scenario("5", GROUP, "Two threads share one memory object: nothing of one is shown in the other", AGENTS, ("Mycel",))
async def shared_object(contender: str, folder: Path) -> Outcome:
    side, model = ScriptedSummariser(profile={"max_input_tokens": 4_000}), Scripted()
    graph = AGENTS[contender](Wanted(model, side, folder, 4_000))
    first, second = Thread(graph, "t-1"), Thread(graph, "t-2")
    mixed = 0
    for turn in range(16):
        for thread, word, other in ((first, "larch", "birch"), (second, "birch", "larch")):
            await thread.say(prose(f"{word}{turn}", 1_500))
            mixed += other in text_of(model.last)
    prompts = [prompt for prompt, _ in side.exchanges]
    mixed += sum("larch" in prompt and "birch" in prompt for prompt in prompts)
    return judged(prompts and not mixed, f"{mixed} of 32 calls mixed")


@scenario(
    "6",
    GROUP,
    "Time travel to before a summary, then a longer branch: nothing of the other future is shown, nothing of this "
    "one lost",
    AGENTS,
    ("Mycel",),
)
async def rewound(contender: str, folder: Path) -> Outcome:
    side, model = ScriptedSummariser(profile={"max_input_tokens": 4_000}), Scripted()
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 4_000)))
    for turn in range(4):
        await thread.say(prose(f"root{turn}", 900))
    back = (await thread.graph.aget_state(thread.config)).config
    for turn in range(16):
        await thread.say(prose(f"LEFT{turn}", 900))
    bought = len(side.exchanges)
    wrong = 0
    for turn in range(24):
        given = {"messages": [("user", prose(f"kept{turn}x", 900))]}
        await thread.graph.ainvoke(given, thread.config if turn else {**back, "recursion_limit": 100})
        wrong += "LEFT" in text_of(model.last)
    seen = text_of(model.last) + "".join(prompt for prompt, _ in side.exchanges[bought:])
    lost = sum(f"kept{turn}x" not in seen for turn in range(24))
    figure = f"the other future in {wrong} of 24 calls, {lost} of 24 messages lost"
    return judged(bought and not wrong and not lost, figure)


@scenario(
    "6b",
    GROUP,
    "The ten oldest messages are removed from the thread after a summary: no other message is lost",
    AGENTS,
    ("Mycel",),
)
async def removed(contender: str, folder: Path) -> Outcome:
    side, model = ScriptedSummariser(profile={"max_input_tokens": 4_000}), Scripted()
    thread = Thread(AGENTS[contender](Wanted(model, side, folder, 4_000, keep=1_000)))
    turn = 0
    while not side.exchanges or turn < 14:
        await thread.say(prose(f"said{turn}x", 900))
        turn += 1
    # More messages behind the summary, so that whoever keeps few has ten to remove.
    for more in range(turn, turn + 6):
        await thread.say(prose(f"said{more}x", 120))
    old = [message for message in await thread.messages() if message.id][:10]
    await thread.graph.aupdate_state(thread.config, {"messages": [RemoveMessage(id=m.id or "") for m in old]})
    left = [text_of([m]).split()[0] for m in await thread.messages() if text_of([m]).startswith("said")]
    await thread.say("and now?")
    seen = text_of(model.last) + "".join(prompt for prompt, _ in side.exchanges)
    lost = sum(mark not in seen for mark in left)
    return judged(left and not lost, f"{lost} of {len(left)} other messages lost")


@scenario(
    "9",
    GROUP,
    "A tool result of 3,001 characters, one of blocks, eight parallel ones of 20,000: none grows, blocks are pruned, "
    "at most three of the eight stay whole",
    AGENTS,
    ("Mycel",),
)
async def pruned(contender: str, folder: Path) -> Outcome:
    if contender in (DEEPAGENTS, LANGMEM):
        return DOES_NOT
    side = ScriptedSummariser(profile={"max_input_tokens": 80_000})
    policy = POLICIES[PEER_POLICIES[contender]](Setting(side, 80_000, folder))
    eight = [f"p{number}" for number in range(8)]
    history = [
        HumanMessage("look everywhere", id="h"),
        calls(*eight, id="a8"),
        *(result(call, filled(call, " row", 20_000), id=f"r-{call}") for call in eight),
        calls("b", id="ab"),
        result("b", [{"type": "text", "text": filled("b", " row", 20_000)}], id="r-b"),
        calls("s", id="as"),
        result("s", filled("s", " row", 3_001), id="r-s"),
        *rounds(12, chars=1_600),
    ]
    sizes = {m.tool_call_id: len(m.text) for m in await policy.view(history) if isinstance(m, ToolMessage)}
    whole = sum(sizes.get(call, 0) >= 20_000 for call in eight)
    figure = f"3,001 → {sizes.get('s', 0):,}, blocks 20,000 → {sizes.get('b', 0):,}, {whole} of 8 whole"
    return judged(sizes.get("s", 0) <= 3_001 and sizes.get("b", 0) < 20_000 and whole <= 3, figure)


@scenario(
    "10",
    GROUP,
    "60 calls of a growing thread with tool results: at most 6 break the prompt cache's prefix",
    AGENTS,
)
async def stable(contender: str, folder: Path) -> Outcome:
    side = ScriptedSummariser(profile={"max_input_tokens": 32_000})
    policy = POLICIES[PEER_POLICIES[contender]](Setting(side, 32_000, folder))
    history: list[BaseMessage] = [HumanMessage(REQUEST, id="h")]
    before: list[tuple[str, str, str | None]] = []
    broken = []
    for call in range(60):
        await policy.rest()
        now = list(map(fingerprint, await policy.view(history)))
        if (shared := shared_front(before, now)) < len(before):
            broken.append(shared)
        before = now
        history = [*history, *rounds(1, chars=2_400, start=call)]
    where = f", the last at message {', '.join(map(str, broken[-3:]))}" if broken else ""
    return judged(len(broken) <= 6, f"{counted(len(broken), 'break', 'breaks')}{where}")


@scenario(
    "14",
    GROUP,
    "A tool call that was never answered, then another human message: the request is valid",
    AGENTS,
    ("Mycel",),
)
async def unanswered(contender: str, folder: Path) -> Outcome:
    model = Scripted()
    thread = Thread(AGENTS[contender](Wanted(model, ScriptedSummariser(), folder, tools=[grab(10)])))
    call = AIMessage("", tool_calls=[{"name": "grab", "args": {"n": 1}, "id": "c-1"}], id="a")
    await thread.say("look", call, HumanMessage("never mind, say hello", id="h2"))
    added = any(isinstance(message, ToolMessage) for message in await thread.messages())
    valid = not halves(model.last)
    return judged(valid, f"{'valid' if valid else 'a call without a result is sent'}{', thread rewritten' * added}")
