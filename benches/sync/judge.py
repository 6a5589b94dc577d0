"""Whether a store holds what the documents say. The same judge for every tool."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benches.sync.stub import signs


@dataclass(frozen=True, slots=True)
class Verdict:
    """Documents, each counted once; and chunks that are there more than once."""

    lost: int
    """Some or all of its text cannot be found, and nothing that was its text before either."""
    stale: int
    """Text is found that is not its text any more, or under a vector of another text."""
    orphaned: int
    """It does not exist any more, and is found."""
    doubled: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.stale or self.orphaned or self.doubled)


def judge(
    truth: Mapping[str, Sequence[str]],
    rows: Iterable[Sequence[str]],
    *,
    apart: Collection[str] = (),
) -> Verdict:
    """Compare what is searchable with the true paragraphs; documents *apart* are not looked at."""
    found: dict[str, list[str]] = defaultdict(list)
    wrong: set[str] = set()
    for name, text, vector in rows:
        found[name].append(text.strip())
        # White space at the ends of a chunk is no difference, nor whether it was embedded.
        if vector not in {signs(text).hex(), signs(text.strip()).hex()}:
            wrong.add(name)
    lost = stale = doubled = 0
    for name, paragraphs in truth.items():
        if name in apart:
            continue
        there, wanted = found.get(name, []), set(paragraphs)
        doubled += len(there) - len(set(there))
        if name in wrong or set(there) - wanted:
            stale += 1
        elif wanted - set(there):
            lost += 1
    orphaned = len(found.keys() - truth.keys() - set(apart))
    return Verdict(lost, stale, orphaned, doubled)
