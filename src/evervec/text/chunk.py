"""Cuts a text into chunks that fit the model, each found under its own headings.

Headings part markdown into sections; a chunk holds several only if they are small neighbours
under one parent, below level 2. Within that, `pack` decides.

Memory is bounded by a batch of sections, and so is the number of calls to the tokenizer: for each
batch one for the ends of its tokens, one for its headings, and few to check the doubtful chunks.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evervec.model import Chunk
from evervec.text.blocks import Block, Kind, plain_blocks
from evervec.text.boundaries import WITHIN, Level, items, rows
from evervec.text.code import code_blocks
from evervec.text.costs import JOINT, SPECIAL, Costs, Headings, TokenEnds
from evervec.text.cutting import ALGORITHM, ChunkRecipe
from evervec.text.markdown import header_row, markdown_blocks
from evervec.text.pack import Span, pack
from evervec.text.sections import Section, batches

__all__ = ["ALGORITHM", "ChunkRecipe", "TokenEnds", "chunk"]

_BLOCKS = {"markdown": markdown_blocks, "code": code_blocks}
_SPACE = re.compile(r"\s+")
_SLACK = 4
"""Some tokenizers count a part by itself a little higher than within the whole."""
_SHORT = 5
"""Characters a token, at most, of a text that may well fit as a whole."""


def chunk(text: str, *, kind: str, tokens: TokenEnds, recipe: ChunkRecipe) -> Iterator[Chunk]:
    """Yield the chunks of *text* in order; none of them blank, none above the recipe's limit.

    *kind* is `markdown` or `code`; anything else is plain. Together the chunks hold all of *text*
    but whitespace.
    """
    if kind not in _BLOCKS and len(text) <= _SHORT * recipe.tokens_max:
        whole = _whole(text, tokens, recipe)
        if whole is not None:
            yield whole
            return
    blocks = _BLOCKS.get(kind, plain_blocks)(text)
    for sections in batches(text, blocks):
        start, end = sections[0].start, sections[-1].end
        if text[start:end].isspace():
            continue
        costs = Costs(text, start, end, tokens)
        headings = Headings(sections, tokens, recipe)
        yield from _Cutter(text, costs, headings, recipe, tokens).chunks(sections)


def _whole(text: str, tokens: TokenEnds, recipe: ChunkRecipe) -> Chunk | None:
    """Return a text without headings that surely fits as its one chunk, and None otherwise.

    Most rows of a table are such, and all else that is done here would cost more than to read them.
    """
    body = text.strip()
    if not body:
        return None
    (special,) = tokens.count_tokens([""])
    room = recipe.tokens_max - max(special, SPECIAL) - recipe.overlap - _SLACK
    costs = Costs(text, 0, len(text), tokens)
    if costs.until(len(text)) > room:
        return None
    start = text.index(body[0])
    return Chunk(body, start, start + len(body), heading_context=recipe.heading_context)


@dataclass(frozen=True, slots=True)
class _Run:
    """Sections that may share chunks: one, or small neighbours under one parent."""

    sections: tuple[Section, ...]

    @property
    def span(self) -> Span:
        return self.sections[0].start, self.sections[-1].end

    def path(self, span: Span) -> tuple[str, ...]:
        """Return the headings above all of *span*: sections of one run differ in the last only."""
        paths = [
            section.path
            for section in self.sections
            if section.start < span[1] and span[0] < section.end
        ]
        return paths[0] if len(paths) == 1 else paths[0][:-1]


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A chunk to be, unless it turns out too large."""

    run: _Run
    span: Span
    budget: int
    overlap: int
    """How many tokens of the chunk before are repeated."""
    columns: str = ""
    """If it begins within a table, that table's first row."""


class _Places:
    """The boundaries in a run. There is none between a heading and what follows it."""

    def __init__(self, text: str, run: _Run) -> None:
        blocks = [block for section in run.sections for block in section.blocks]
        self._text = text
        self._sections = [section.start for section in run.sections]
        self._blocks = [
            block.start for last, block in pairwise(blocks) if last.kind is not Kind.HEADING
        ]
        self._rows = [block for block in blocks if block.kind in {Kind.ROWS, Kind.ITEMS}]
        self._row_ends = [block.end for block in self._rows]
        self._headings = [block for block in blocks if block.kind is Kind.HEADING]
        self._heading_starts = [block.start for block in self._headings]

    def __call__(self, level: Level, start: int, end: int) -> Sequence[int]:
        if level in {Level.SECTION, Level.BLOCK}:
            known = self._sections if level is Level.SECTION else self._blocks
            return known[bisect_right(known, start) : bisect_left(known, end)]
        if level is Level.ROW:
            return [
                at
                for block in self._rowed(start, end)
                for at in _rows(self._text, block)
                if start < at < end
            ]
        found = (at for at in WITHIN[level](self._text, start, end) if start < at < end)
        if level in {Level.LINE, Level.SENTENCE} and self._headings:
            return [at for at in found if not self._in_heading(at)]
        return list(found)

    def tables(self, start: int, end: int) -> list[tuple[Block, Span]]:
        """Return the tables that reach into a span, each with the place of its first row."""
        found = []
        for block in self._rows[bisect_right(self._row_ends, start) :]:
            if block.start >= end:
                break
            header = header_row(self._text, block) if block.kind is Kind.ROWS else None
            if header is not None:
                found.append((block, header))
        return found

    def _rowed(self, start: int, end: int) -> Iterator[Block]:
        for block in self._rows[bisect_right(self._row_ends, start) :]:
            if block.start >= end:
                return
            yield block._replace(start=max(start, block.start), end=min(end, block.end))

    def _in_heading(self, at: int) -> bool:
        before = bisect_left(self._heading_starts, at) - 1
        return before >= 0 and at <= self._headings[before].end


def _rows(text: str, block: Block) -> Iterator[int]:
    return (items if block.kind is Kind.ITEMS else rows)(text, block.start, block.end)


class _Cutter:
    """Cuts one batch."""

    def __init__(
        self, text: str, costs: Costs, headings: Headings, recipe: ChunkRecipe, tokens: TokenEnds
    ) -> None:
        self._text = text
        self._costs = costs
        self._headings = headings
        self._recipe = recipe
        self._tokens = tokens

    def chunks(self, sections: Sequence[Section]) -> Iterator[Chunk]:
        drafts = [
            draft
            for run in self._runs(sections)
            for draft in self._cut(run, run.span, self._room(run), self._recipe.overlap)
        ]
        for draft in self._fitting(drafts):
            made = self._chunk(draft)
            if made.text:
                yield made

    def _runs(self, sections: Sequence[Section]) -> Iterator[_Run]:
        """Join small neighbours: a chunk of a few words is found by chance alone."""
        run: list[Section] = []
        for section in sections:
            if run and not self._joins(run[-1], section):
                yield _Run(tuple(run))
                run = []
            run.append(section)
        yield _Run(tuple(run))

    def _joins(self, last: Section, section: Section) -> bool:
        if last.level < 3 or section.level < 3 or last.path[:-1] != section.path[:-1]:
            return False
        small = self._recipe.tokens_max // 4
        return self._cost(last.start, last.end) < small > self._cost(section.start, section.end)

    def _cost(self, start: int, end: int) -> int:
        return self._costs.until(end) - self._costs.until(start)

    def _room(self, run: _Run) -> int:
        """Return how many tokens are left for the text itself."""
        heading = max(self._headings.of(section.path)[1] for section in run.sections)
        recipe = self._recipe
        return recipe.tokens_max - self._headings.special - heading - recipe.overlap

    def _cut(self, run: _Run, span: Span, budget: int, overlap: int) -> list[_Draft]:
        if self._cost(*span) <= budget:
            return [_Draft(run, span, budget, overlap)]
        places = _Places(self._text, run)
        spans = pack(self._text, span, cost=self._costs.until, places=places, budget=budget)
        tables = places.tables(*span)
        return [
            _Draft(run, part, budget, overlap, self._columns(tables, part[0], budget))
            for part in spans
        ]

    def _columns(self, tables: Sequence[tuple[Block, Span]], at: int, budget: int) -> str:
        """Return what names the columns at *at*, if a table was cut there: its rows alone say little."""
        within = bisect_left(tables, at, key=lambda table: table[0].start) - 1
        if within < 0:
            return ""
        block, (start, end) = tables[within]
        if not end <= at < block.end or self._cost(start, end) > budget // 4:
            return ""
        cells = (cell.strip() for cell in self._text[start:end].split("|"))
        return " | ".join(cell for cell in cells if cell)

    def _fitting(self, drafts: Sequence[_Draft]) -> Iterator[_Draft]:
        """Count the doubtful drafts by themselves, and cut again those that are too large."""
        smaller: dict[_Draft, list[_Draft]] = {}
        doubtful = [draft for draft in drafts if self._doubtful(draft)]
        while doubtful:
            counts = self._tokens.count_tokens([self._chunk(draft).embedded for draft in doubtful])
            for draft, count in zip(doubtful, counts, strict=True):
                if count <= self._recipe.tokens_max:
                    continue
                if draft.overlap:
                    # What is repeated goes first: it costs no other place to be cut at.
                    smaller[draft] = [replace(draft, overlap=draft.overlap // 2)]
                elif draft.budget > 0:
                    half = min(draft.budget, self._cost(*draft.span)) // 2
                    smaller[draft] = self._cut(draft.run, draft.span, half, 0)
            doubtful = [part for draft in doubtful for part in smaller.get(draft, ())]
        waiting = list(reversed(drafts))
        while waiting:
            draft = waiting.pop()
            if draft in smaller:
                waiting.extend(reversed(smaller[draft]))
            else:
                yield draft

    def _doubtful(self, draft: _Draft) -> bool:
        """Say whether its cost may be wrong: near the limit, with columns, or cut within a word."""
        if draft.columns or self._cost(*draft.span) > draft.budget - _SLACK:
            return True
        start, end = draft.run.span
        return any(
            self._text[at - 1].isalnum() and self._text[at].isalnum()
            for at in draft.span
            if start < at < end
        )

    def _chunk(self, draft: _Draft) -> Chunk:
        start, end = draft.span
        path = self._headings.of(draft.run.path(draft.span))[0], draft.columns
        heading = JOINT.join(filter(None, path))
        body = self._text[start:end].rstrip()
        end = start + len(body)
        if body and draft.overlap:
            start = self._overlapped(draft)
        start = end - len(self._text[start:end].lstrip())
        context = self._recipe.heading_context
        return Chunk(self._text[start:end], start, end, heading, heading_context=context)

    def _overlapped(self, draft: _Draft) -> int:
        """Return where the tokens to repeat begin, at a word's beginning if there is one."""
        start, first = draft.span[0], draft.run.span[0]
        back = max(self._costs.back(start, draft.overlap), first)
        space = _SPACE.search(self._text, back, start)
        return space.end() if space and back > first else back
