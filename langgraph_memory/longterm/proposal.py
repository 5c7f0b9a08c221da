"""The verdict on what a model proposes as the new MEMORY.md. The model proposes, code decides. Pure.

A proposal is the whole new file. It is refused unless it is complete, in the form of the file, says something, and is
no refusal, chat, call or error; if it tells of its making or has dots in the place of lines; and unless what was there
is still in it: no more than a third of what the old file said may be missing, more only as far as the size limit
demands. Two things count as said although their words are gone: what a new entry, which *is* in the proposal, speaks of
too, as newer corrects older; and what was there twice. If the proposal has dropped a line and not taken in the new
entry about the same thing, or none of the entries at all, it is refused whatever its size.

What can be put right is put right: code fences and talk around the file go, so do secrets, duplicates and pins that no
person set; pinned blocks and those that a person wrote are put back word for word; what exceeds the limit is cut.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from ..context.refusals import declines
from ..context.text import message_text
from ..context.verdict import Count, Rejected, accept, plain
from ..search_text import words
from .curated import Block, Section, blocks_of, cut, distinct, folded, is_left_out, text_of
from .edits import is_about_changes, says_unchanged, tells_of_changes
from .redact import redact
from .talk import is_talk_line

MOST_LOST = 1 / 3
"""Share of what the old file said that may be missing."""
SUPERSEDED = 2
"""Blocks that one new entry may correct."""
_NO_LIMIT = 1 << 60
_SMALL = frozenset(
    ("the", "and", "for", "are", "was", "has", "had", "his", "her", "she", "its", "now", "not", "but", "user")
)

# The tags where they part a reply into lines, then wherever they are.
_OPENINGS = (r"^[ \t]*<memory_file\b[^<>\n]*>", r"<memory_file\b[^<>\n]*>")
_CLOSINGS = (r"^[ \t]*</memory_file\s*>|</memory_file\s*>[ \t]*$", r"</memory_file\s*>")
_TAGS = tuple(
    (re.compile(opening, re.IGNORECASE | re.MULTILINE), re.compile(closing, re.IGNORECASE | re.MULTILINE))
    for opening, closing in zip(_OPENINGS, _CLOSINGS, strict=True)
)
_TAG = re.compile(r"\A&lt;curated_memory>(.*)&lt;/curated_memory>\Z", re.DOTALL)
_FENCED = re.compile(r"^```(?:markdown|md|text)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_LABEL = re.compile(r"[^\n]{1,300}[:：](?:\*\*)?")
_BOLD = re.compile(r"(?:\*\*|__)[^\n*_]{1,100}(?:\*\*|__)[ \t]*[:：]?")
_DOTS = r"(?:\.{3}|[…⋯‥]|。{3})"
_ELISION = re.compile(
    rf"[\[(（【<＜{{「!/\s-]*+{_DOTS}|[\[(（【<＜{{][^\n\[\](){{}}（）【】]*{_DOTS}[\])）】>＞}}」*_`./\s-]*+\Z"
)
_IN_BRACKETS = re.compile(r"[\[(（【＜<{][^\[\](){}（）【】]*[\])）】＞>}]")
_LONGEST_ELISION = 160


@dataclass(frozen=True, slots=True)
class Question:
    """What a proposal answers."""

    was: str
    """MEMORY.md as the model was shown it."""
    entries: Sequence[str]
    """The texts of the new entries."""
    max_tokens: int
    count: Count
    person: Collection[str] = ()
    """Prints of the blocks of `was` that a person wrote."""


def judge(reply: BaseMessage | str, question: Question) -> str | Rejected:
    """The new MEMORY.md, or why there is none."""
    text = _said(reply, question)
    if isinstance(text, Rejected):
        return text
    old = blocks_of(question.was)
    blocks = [_unpinned(block, old) for block in blocks_of(redact(text)) if not is_left_out(block.text)]
    for fault in (
        _form(blocks, old),
        _trailer(blocks, old, question),
        _loss(blocks, old, question),
        _swallowed(blocks, old, question),
    ):
        if fault:
            return Rejected(fault)
    blocks = distinct(_put_back(blocks, old, question.person), keep=question.person)
    return cut(text_of(blocks), question.max_tokens, question.count, keep=question.person)


# What was said


def _said(reply: BaseMessage | str, question: Question) -> str | Rejected:
    """The file in a reply, without what stands around it."""
    if isinstance(reply, BaseMessage) and any(map(_refuses, reply.content)):
        return Rejected("the reply is a refusal")
    text = _file_in(plain(message_text(reply) if isinstance(reply, BaseMessage) else reply))
    if isinstance(text, Rejected):
        return text
    known = {block.key for block in blocks_of(question.was)} | {folded(entry) for entry in question.entries}
    lines = known | {folded(line) for said in (question.was, *question.entries) for line in said.split("\n")}
    if any(_elides(block, lines) for block in blocks_of(text) if not is_left_out(block.text)):
        return Rejected("the reply is a part of the file: of other lines it says only that they are there")
    text = _without_talk(text, known, question)
    answer = _accepted(_with(reply, text))
    if isinstance(answer, Rejected):
        # A file may begin with "I cannot eat nuts". Only what the model did not read must not look like a refusal.
        new = text_of(block for block in blocks_of(text) if block.key not in known)
        answer = _accepted(_with(reply, new or "kept")) if text else answer
    return answer if isinstance(answer, Rejected) else text


def _refuses(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "refusal"


def _accepted(reply: BaseMessage | str) -> str | Rejected:
    # What people noted may repeat itself.
    return accept(reply, replaces=_NO_LIMIT, room=_NO_LIMIT, count=len, loops=True)


def _with(reply: BaseMessage | str, text: str) -> BaseMessage | str:
    """A reply that ended as this one did and says `text`."""
    return reply.model_copy(update={"content": text}) if isinstance(reply, BaseMessage) else text


def _file_in(text: str) -> str | Rejected:
    text = _tagged(text)
    if _TAGS[0][0].search(text):
        return Rejected("the reply was cut off: the end of the file is missing")
    if found := _TAG.match(text) or re.match(r"\A<curated_memory>(.*)</curated_memory>\Z", text, re.DOTALL):
        text = found[1].strip()
    fences = _FENCED.findall(text)
    around = _FENCED.sub("", text)
    if len(fences) == 1 and not any(block.level or block.is_item for block in blocks_of(around)):
        return str(fences[0]).strip()
    if text.count("```") % 2:
        return Rejected("the reply was cut off: a code fence is not closed")
    return text


def _tagged(text: str) -> str:
    """What stands between the last tags of a file, or before an end that has no beginning; from one that has no end."""
    for opening, closing in _TAGS:
        begins, ends = list(opening.finditer(text)), list(closing.finditer(text))
        if opening is _TAGS[0][0] and begins and ends and begins[-1].start() > ends[-1].start():
            return text[begins[-1].start() :]
        whole = [begin for begin in begins if ends and begin.end() <= ends[-1].start()]
        if whole:
            start = whole[-1].end()
            return text[start : next(end.start() for end in ends if end.start() >= start)].strip()
    parts = _TAGS[0][1].split(text)
    return next((part.strip() for part in parts if part.strip()), "") if len(parts) > 1 else text


def _without_talk(text: str, known: Collection[str], question: Question) -> str:
    """`text` without new lines before and behind the file that speak to whoever asked."""
    blocks = blocks_of(text)
    # In a file of headings and items a lone line that says nothing of the entries is none of it.
    listed = any(block.level or block.is_item for block in blocks) and all(map(_is_listed, blocks_of(question.was)))
    about = [_telling([entry]) for entry in question.entries]

    def is_talk(block: Block, following: Block | None) -> bool:
        if _is_listed(block) or len(block.lines) > 1 or block.key in known:
            return False
        label = following is not None and _LABEL.fullmatch(block.text.rstrip()) is not None and following.level > 0
        said = _words([block.text])
        alone = listed and (following is not None or block.parted) and all(_share(bag, said) < 0.5 for bag in about)
        return label or alone or is_talk_line(block.text)

    while len(blocks) > 1 and is_talk(blocks[0], blocks[1]):
        del blocks[0]
    while len(blocks) > 1 and (blocks[-1].is_rule or is_talk(blocks[-1], None)):
        del blocks[-1]
    return text_of(blocks)


def _is_listed(block: Block) -> bool:
    return block.level > 0 or block.is_item


def _unpinned(block: Block, old: Sequence[Block]) -> Block:
    """A block is pinned by a person only."""
    if not block.pinned or any(one.pinned and one.key == block.key for one in old):
        return block
    return block.without_pin()


# Form


def _form(blocks: Sequence[Block], old: Sequence[Block]) -> str:
    """What is wrong with the form of the file; "" where nothing is."""
    said = [block for block in blocks if not block.level and not block.is_rule]
    if not said:
        return "the reply holds only headings" if blocks else "the reply holds no text"
    known = {block.key for block in old}
    if not any(block.level or block.is_item for block in blocks) and not any(block.key in known for block in said):
        return "the reply is not in the form of the file: it has neither headings nor list items"
    new = [block for block in said if block.key not in known]
    if any(declines(_bare(block)) for block in new[:1] if not block.is_item or len(said) == 1):
        return "the reply is a refusal"
    return ""


def _bare(block: Block) -> str:
    return block.text.lstrip("-*+• ")


def _elides(block: Block, known: Collection[str]) -> bool:
    """Whether a new block stands for lines that it does not say: `[... the rest ...]`, "All else is unchanged"."""
    if block.lines[0].lstrip().startswith(("```", "~~~", "|")):
        return False
    return any(
        _is_elision(line.strip().lstrip("-*+•#> _`").rstrip("*_`")) for line in block.lines if folded(line) not in known
    )


def _is_elision(line: str) -> bool:
    if len(line) > _LONGEST_ELISION:
        return False
    in_brackets = _IN_BRACKETS.fullmatch(line) is not None
    return _ELISION.match(line) is not None or says_unchanged(line, in_brackets=in_brackets)


def _trailer(blocks: Sequence[Block], old: Sequence[Block], question: Question) -> str:
    """Whether the last section tells what was done to the file, instead of being of it; "" where not.

    It is new, and nothing would be lost without it: what it has in common with the old file and the new entries is in
    the rest. A line that serves as a heading is not of the file where nothing else in it does; a heading may be.
    """
    known = {block.key for block in old}
    start = next((place for place in range(len(blocks) - 1, 0, -1) if _heads(blocks[place])), 0)
    tail = blocks[start:]
    if not start or any(block.key in known for block in tail):
        return ""
    fault = "the reply tells what was changed, in the file"
    if is_about_changes(tail[0].text):
        return fault
    told, added = _words(block.text for block in blocks[:start]), _words(block.text for block in tail)
    sources = _words([block.text for block in old] + list(question.entries))
    if (added & sources) - told or any(_share(_telling([entry]), told) < 0.5 for entry in question.entries):
        return ""
    foreign = not tail[0].level and bool(added - sources) and not any(not one.level and _heads(one) for one in old)
    return fault if foreign or any(tells_of_changes(block.text) for block in tail) else ""


def _heads(block: Block) -> bool:
    """Whether what follows a block stands under it."""
    if block.level:
        return True
    text = block.text.rstrip()
    label = _LABEL.fullmatch(text) is not None and text.startswith(("**", "__"))
    return not block.is_item and (label or _BOLD.fullmatch(text) is not None)


# What must not be lost


def _loss(blocks: Sequence[Block], old: Sequence[Block], question: Question) -> str:
    """Why the proposal has lost too much; "" where it has not."""
    before = distinct([block for block in old if not block.level and not block.is_rule])
    now = _words(block.text for block in blocks if not block.level)
    superseded = set(_superseded(before, now, question.entries))
    left = [block for place, block in enumerate(before) if place not in superseded]
    bags = [_words([block.text]) for block in left]
    said = sum(map(len, bags))
    if not said:
        return ""
    # Facts that share their words show in the size, others in the words.
    chars = sum(len(block.key) for block in left)
    kept_chars = sum(len(block.key) for block in blocks if not block.level)
    lost = max(1 - sum(len(bag & now) for bag in bags) / said, 1 - kept_chars / chars)
    total = question.count(question.was) + sum(map(question.count, question.entries))
    most = max(MOST_LOST, 1 - (1 - MOST_LOST) * question.max_tokens / max(total, 1))
    if lost <= most:
        return ""
    return f"the proposal leaves out {lost:.0%} of what the memory said, allowed are {most:.0%}"


def _superseded(before: Sequence[Block], now: Collection[str], entries: Sequence[str]) -> Iterator[int]:
    """Places of the blocks whose words are gone because a new entry, which is in the proposal, corrects them."""
    gone = {place: bag for place, block in enumerate(before) if _share(bag := _telling([block.text]), now) < 1}
    for entry in entries:
        bag = _telling([entry])
        if _share(bag, now) < 0.5:
            continue
        alike = sorted(gone, key=lambda place: (-_likeness(gone[place], bag), -place))
        for place in alike[:SUPERSEDED]:
            if gone[place] & bag:
                yield place


def _swallowed(blocks: Sequence[Block], old: Sequence[Block], question: Question) -> str:
    """Whether what is new is missing: nothing of it is there, or a line is gone that an entry speaks of too."""
    now = _words(block.text for block in blocks)
    gone = [bag for block in old if not block.level and _share(bag := _telling([block.text]), now) < 0.5]
    missing = [bag for bag in map(_telling, ([entry] for entry in question.entries)) if _share(bag, now) < 0.5]
    if missing and len(missing) == len(question.entries) and not _new(blocks, old):
        return "the proposal takes in none of the new entries"
    if any(_share(bag, now) < 1 / 3 and any(one & bag for one in gone) for bag in missing):
        return "the proposal drops a line, and what is new about it is missing too"
    return ""


def _new(blocks: Sequence[Block], old: Sequence[Block]) -> set[str]:
    return {block.key for block in blocks} - {block.key for block in old}


def _words(texts: Iterator[str] | Sequence[str]) -> set[str]:
    return {word for text in texts for word in words(text)}


def _telling(texts: Sequence[str]) -> set[str]:
    """Words long enough to tell what a text is about, all of them where none is."""
    found = _words(texts)
    return {word for word in found if len(word) > (2 if word.isascii() else 1)} - _SMALL or found


def _share(bag: Collection[str], now: Collection[str]) -> float:
    return sum(word in now for word in bag) / len(bag) if bag else 1.0


def _likeness(one: set[str], other: set[str]) -> float:
    return len(one & other) / (len(one | other) or 1)


# What is put back


def _put_back(blocks: list[Block], old: Sequence[Block], person: Collection[str]) -> list[Block]:
    """The proposal with every block in it that is pinned or a person's, word for word, under its heading."""
    blocks = list(blocks)
    homes = _homes(blocks, old)
    theirs = {(homes.get(one.section), one.key) for one in old}
    done: list[Block] = []
    for place, block in enumerate(old):
        if not (block.pinned or block.print in person) or (block.level and not block.pinned):
            continue
        there = _found(blocks, block, homes.get(block.section), theirs, done)
        if there is not None and _may_stand(blocks[there], block, homes.get(block.section), person, old):
            new = blocks[there]
            blocks[there] = replace(block, above=new.above, parted=new.parted, section=new.section)
            done.append(blocks[there])
            continue
        if there is not None:
            del blocks[there]
        before = [one.key for one in old[:place] if one.section == block.section and not one.level]
        done.append(_add_headings(blocks, block, homes) if block.level else _insert(blocks, block, before, homes))
    return blocks


def _homes(blocks: Sequence[Block], old: Sequence[Block]) -> dict[Section, Section]:
    """Which section of the proposal each old one is, of those that are there.

    It is the one of that name in the same place, of several the nearest in order. One whose name is nowhere else may
    have been moved, but not out of the innermost heading above it that is still there: that would be another's.
    """
    homes: dict[Section, Section] = {(): ()}
    there: defaultdict[str, list[Section]] = defaultdict(list)
    for block in blocks:
        if block.level:
            there[block.section[-1][0]].append(block.section)
    headings = [block.section for block in old if block.level]
    times = Counter(section[-1][0] for section in headings)
    for section in headings:
        *_, (name, number) = section
        same = [one for one in there[name] if one[:-1] == homes.get(section[:-1])]
        if not same and times[name] == 1:
            parent = homes[_nearest(section[:-1], homes)]
            below = [one for one in there[name] if one[: len(parent)] == parent]
            same = below if len(below) == 1 else []
        if same:
            homes[section] = min(same, key=lambda one: abs(one[-1][1] - number))
    return homes


def _nearest(section: Section, homes: Collection[Section]) -> Section:
    """A section or the innermost around it that is still there."""
    return next(section[:end] for end in range(len(section), -1, -1) if section[:end] in homes)


def _found(
    blocks: Sequence[Block],
    block: Block,
    home: Section | None,
    theirs: Collection[tuple[Section | None, str]],
    done: Sequence[Block],
) -> int | None:
    """Where the proposal has a block, best in its own section; what stands for another one does not count."""
    level, key = block.level, block.key

    def is_it(new: Block) -> bool:
        if level:
            return new.level > 0 and new.section == home
        return new.key == key and (new.section == home or (new.section, new.key) not in theirs)

    places = [place for place, new in enumerate(blocks) if is_it(new) and not any(new is one for one in done)]
    return min(places, key=lambda place: blocks[place].section != home, default=None)


def _may_stand(new: Block, block: Block, home: Section | None, person: Collection[str], old: Sequence[Block]) -> bool:
    """Whether a block may stand where the proposal has it: anywhere, unless a person wrote the heading too."""
    if block.level or not block.above or new.section == home:
        return True
    heading = next(one for one in old if one.level and one.section == block.section)
    return not (heading.pinned or heading.print in person)


def _insert(blocks: list[Block], block: Block, before: Sequence[str], homes: dict[Section, Section]) -> Block:
    """Put a block under its heading, behind the last of those that stood before it there."""
    if block.section not in homes:
        _add_headings(blocks, block, homes)
    home = homes[block.section]
    start = _heading(blocks, home) + 1 if home else 0
    end = _section_end(blocks, start)
    behind = [place + 1 for place in range(start, end) if blocks[place].key in before]
    at = behind[-1] if behind else end if before else start
    new = replace(block, parted=block.parted and at == start, section=home)
    blocks.insert(at, new)
    return new


def _section_end(blocks: Sequence[Block], start: int, level: int = 6) -> int:
    """The place of the next heading of at most a level, or the end."""
    return next((place for place in range(start, len(blocks)) if 0 < blocks[place].level <= level), len(blocks))


def _heading(blocks: Sequence[Block], section: Section) -> int:
    return next(place for place, one in enumerate(blocks) if one.level and one.section == section)


def _add_headings(blocks: list[Block], block: Block, homes: dict[Section, Section]) -> Block:
    """Add the headings over a block that are not there, or it, at the end of the section they belong in; the last."""
    path = (*block.above, block.text) if block.level else block.above
    depth, at = len(_nearest(block.section[:-1], homes)), len(blocks)
    while depth:
        parent = _heading(blocks, homes[block.section[:depth]])
        level = blocks[parent].level
        if level < Block((path[depth],)).level:
            at = _section_end(blocks, parent + 1, level)
            break
        # It has become as deep as what belongs below it.
        depth -= 1
    for end in range(depth, len(path)):
        homes[block.section[: end + 1]] = home = (*homes[block.section[:end]], block.section[end])
        blocks.insert(at, Block((path[end],), path[:end], True, home))
        at += 1
    return blocks[at - 1]
