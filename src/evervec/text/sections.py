"""Groups blocks into sections under headings, and sections into batches of bounded size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evervec.text.blocks import Block, Kind
from evervec.text.boundaries import Level, characters, rank, words

BATCH = 1 << 18
"""About how many characters are looked at together: bounds memory, whatever the text's size."""


@dataclass(slots=True)
class Section:
    """What stands under one heading.

    A heading with nothing below it but a deeper heading leads in that one's section.
    """

    path: tuple[str, ...]
    level: int
    """Of its first heading; 0 if it has none."""
    blocks: list[Block] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.blocks[0].start

    @property
    def end(self) -> int:
        return self.blocks[-1].end


def batches(text: str, blocks: Iterable[Block]) -> Iterator[list[Section]]:
    """Yield the sections of *text*, some at a time; a batch's end is always a cut.

    A section too large for one batch goes on in the next. Where it is parted depends on what
    stands there, not on how far it is from the start, so an edit does not shift all that follow.
    """
    batch: list[Section] = []
    for section in _sections(text, blocks):
        batch.append(section)
        if section.end - batch[0].start >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _sections(text: str, blocks: Iterable[Block]) -> Iterator[Section]:
    above: list[tuple[int, str]] = []
    section = Section((), 0)
    body = False
    deepest = 0
    for block in _bounded(text, blocks):
        if block.kind is Kind.HEADING:
            if section.blocks and (body or block.level <= deepest):
                yield section
                section = Section((), block.level)
            elif not section.blocks:
                section.level = block.level
            above = [(level, title) for level, title in above if level < block.level]
            above.append((block.level, block.title))
            section.path = tuple(title for _, title in above if title)
            deepest, body = block.level, False
        else:
            body = True
        section.blocks.append(block)
        if block.end - section.start >= BATCH and _parts(text, section):
            yield section
            section, body = Section(section.path, section.level), True
    if section.blocks:
        yield section


def _parts(text: str, section: Section) -> bool:
    """Say whether *section*, which is as large as a batch, ends here and goes on as another."""
    if section.blocks[-1].kind is Kind.HEADING:
        return False
    return (
        section.end - section.start >= 4 * BATCH or rank(text, section.end, Level.BLOCK) % 64 == 0
    )


def _bounded(text: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """Part blocks of more than two batches."""
    for block in blocks:
        rest = block
        while rest.end - rest.start > 2 * BATCH:
            cut = _parting(text, rest.start + BATCH)
            yield rest._replace(end=cut)
            rest = rest._replace(start=cut)
        yield rest


def _parting(text: str, around: int) -> int:
    """Return the highest-ranking boundary in the few thousand characters from *around* on."""
    for level, find in ((Level.WORD, words), (Level.CHARACTER, characters)):
        places = list(find(text, around, around + BATCH // 32))
        if places:
            return max(places, key=lambda at: rank(text, at, level))
    return around + BATCH // 32
