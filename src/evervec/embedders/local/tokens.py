"""The model's own word pieces: ids to embed, counts to plan with, ends to cut at.

A long text is read in windows cut at white space, where no token spans, so memory stays
bounded and the result is that of the whole text. Only a window without any white space is cut
in the middle of a word, which may then count differently.
"""

import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE, Unigram
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as InOrder

from evervec.embedders.local.runs import Runs

WINDOW = 65_536
"""Characters of one text read at a time."""
SLICE = 524_288
"""Characters of many texts read at a time."""

REMEMBERED_TEXTS = 8192
REMEMBERED_CHARS = 2048
"""Of each of them; together they bound what is remembered to some 20 MB, mostly 5."""


class Tokens:
    """The tokenizer. Safe for use from several threads; keeps to the caller's unless *parallel*.

    With *bare*, a text gets no special tokens, and the white space around it none either: what a
    tokenizer that marks the beginning of words makes of it would depend on where a text is cut.
    """

    def __init__(
        self,
        definition: bytes,
        *,
        parallel: bool = True,
        bare: bool = False,
        lowercase: bool = False,
    ) -> None:
        self._tokenizer = Tokenizer.from_str(definition.decode())
        if lowercase:
            own = self._tokenizer.normalizer
            steps = [Lowercase()] if own is None else [Lowercase(), own]
            self._tokenizer.normalizer = InOrder(steps)
        # The definition cuts at 128 tokens and fills up to 128; both are decided elsewhere.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        _forget_texts(self._tokenizer)
        self._runs = Runs(self._tokenizer)
        # The tokenizer spreads what it gets at once over every processor of the machine.
        self._slice = SLICE if parallel else 1
        # A text is asked for three times: where its tokens end, how many they are, which they are.
        # A row of a table is mostly one chunk, and then these are one text: reading it once saves
        # two of the hundred parts of time that its vector takes.
        self._remembered: dict[str, array[int]] = {}
        self._remembering = threading.Lock()
        self._bare = bare
        self._before, self._after = ([], []) if bare else _specials(self._tokenizer)
        self.specials = len(self._before) + len(self._after)
        """How many tokens stand around each text."""
        self.known = self._tokenizer.get_vocab_size(with_added_tokens=True)
        """How many different tokens there are."""

    def ids(self, texts: Sequence[str], *, most: int) -> list[list[int]]:
        """Return each text's token ids with the special ones, cut to *most*."""
        room = most - self.specials
        known = [self._remembered.get(text) for text in texts]
        found = [[] if ids is None else ids[:room].tolist() for ids in known]
        heads = (
            (index, next(_windows(texts[index]))) for index, ids in enumerate(known) if ids is None
        )
        for index, encoding in self._encoded(heads):
            found[index] = encoding.ids[:room]
        for index, text in enumerate(texts):
            # A head of white space or of endless words leaves room for what follows it.
            if len(text) > WINDOW and len(found[index]) < room:
                found[index] = self._beginning(text, room)
        return [[*self._before, *ids, *self._after] for ids in found]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each whole text takes, its special ones included."""
        known = [self._remembered.get(text) for text in texts]
        counts = [self.specials + (0 if ids is None else len(ids)) for ids in known]
        windows = (
            (index, self._cleaned(window))
            for index, ids in enumerate(known)
            if ids is None and texts[index]
            for window in _windows(texts[index])
        )
        for part in _slices(windows, SLICE):
            by_runs = [(index, window) for index, window in part if self._runs.able(window)]
            sizes = self._runs.counts([window for _, window in by_runs])
            for (index, _), size in zip(by_runs, sizes, strict=True):
                counts[index] += size
            others = [(index, window) for index, window in part if not self._runs.able(window)]
            for index, encoding in self._encoded(others):
                counts[index] += len(encoding)
        return counts

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token of *text* ends; special ones have no place and are left out.

        Ends never fall back. Pieces of one character that was taken apart share its end.
        """
        ends, start = array("q"), 0
        for window in _windows(text):
            found = self._ends(window, remember=len(text) <= REMEMBERED_CHARS)
            ends.extend([start + end for end in found] if start else found)
            start += len(window)
        return ends

    def _ends(self, window: str, *, remember: bool) -> list[int]:
        cleaned = self._cleaned(window)
        if self._runs.able(cleaned):
            ends, read = self._runs.read(cleaned)
            ids = read.tolist() if remember else []
        else:
            encoding = self._tokenizer.encode(cleaned, add_special_tokens=False)
            ends = list(accumulate((end for _, end in encoding.offsets), max))
            ids = encoding.ids
        if remember:
            self._remember(window, ids)
        # What was left off the beginning counts in the places of what follows.
        skipped = len(window) - len(window.lstrip()) if self._bare else 0
        return [skipped + end for end in ends] if skipped else ends

    def _remember(self, text: str, ids: Sequence[int]) -> None:
        with self._remembering:
            if len(self._remembered) >= REMEMBERED_TEXTS:
                # The first in is the first out, and was used long ago.
                del self._remembered[next(iter(self._remembered))]
            self._remembered[text] = array("I", ids)

    def _beginning(self, text: str, room: int) -> list[int]:
        ids: list[int] = []
        for _, encoding in self._encoded((0, window) for window in _windows(text)):
            ids += encoding.ids
            if len(ids) >= room:
                break
        return ids[:room]

    def _encoded(self, windows: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Encoding]]:
        for part in _slices(windows, self._slice):
            cleaned = [self._cleaned(window) for _, window in part]
            if len(cleaned) == 1:
                # On this very thread: to be handed to a busy processor costs more than a short text.
                encodings = [self._tokenizer.encode(cleaned[0], add_special_tokens=False)]
            else:
                encodings = self._tokenizer.encode_batch_fast(cleaned, add_special_tokens=False)
            for (index, _), encoding in zip(part, encodings, strict=True):
                yield index, encoding

    def _cleaned(self, window: str) -> str:
        return _clean(window).strip() if self._bare else _clean(window)


def _forget_texts(tokenizer: Tokenizer) -> None:
    """Keep a tokenizer that does not part a text into words from remembering whole texts.

    It takes each text for one word, and ten thousand of them for 65 MB, of which none comes again.
    """
    model = tokenizer.model
    if tokenizer.pre_tokenizer is None and isinstance(model, BPE | Unigram):
        model._resize_cache(0)  # noqa: SLF001  # it has no other way, short of making it anew: a second


def _specials(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and after a text."""
    encoding = tokenizer.encode("a", add_special_tokens=True)
    marks = encoding.special_tokens_mask
    if 0 not in marks:
        return encoding.ids, []
    first, last = marks.index(0), len(marks) - marks[::-1].index(0)
    return encoding.ids[:first], encoding.ids[last:]


def _windows(text: str) -> Iterator[str]:
    """Cut *text* into pieces that joined give it again; an empty text is one empty piece."""
    start = 0
    while len(text) - start > WINDOW:
        cut = max(text.rfind(space, start, start + WINDOW) for space in " \n\t")
        end = cut if cut > start else start + WINDOW
        yield text[start:end]
        start = end
    yield text[start:]


def _slices(windows: Iterable[tuple[int, str]], most: int) -> Iterator[list[tuple[int, str]]]:
    part: list[tuple[int, str]] = []
    size = 0
    for index, window in windows:
        part.append((index, window))
        size += len(window)
        if size >= most:
            yield part
            part, size = [], 0
    if part:
        yield part


def _clean(text: str) -> str:
    """Replace lone surrogates, one character by one: they have no UTF-8 and no tokens."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
