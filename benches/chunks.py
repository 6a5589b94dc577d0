"""Which share of a document is embedded anew after an edit, for us and for other splitters; and how
fast text is cut. JSON to stdout.

    python -m benches.chunks [--edits 100] [--tokens 200] [--alone] [--folder PATH] [--passes 5]

The documents are those of `benches.reading`, from 4 KB on; an edit is of one of them, drawn by lot with
a fixed seed, and is the same for everybody. A chunk is embedded anew if the document as it was has
none with the same text. Beside chunks, characters are counted, since many small chunks make any
share of chunks look small. Unbroken text is 40 KB of the interpreter's docstrings in one paragraph,
once with its sentences and once as bare words.
"""

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benches.corpus import paragraphs
from benches.edits import EDITS, drawn, inserted_word
from benches.reading import kept, markdown
from benches.report import Line, report
from benches.splitters import PACKAGES, Part, split
from tokenizers import Tokenizer

import evervec
from evervec.embedders.local import files
from evervec.embedders.local.tokens import Tokens
from evervec.text.chunk import ChunkRecipe, TokenEnds, chunk
from evervec.text.digest import text_digest

SEED = 20
LEAST = 4_000
"""Characters of a document that is edited: in a shorter one every share is large."""
UNBROKEN = 40_000
TOKENIZER = Path(evervec.__file__).parent / "embedders" / "local" / "tokenizer.json"
CUTTING = "structure, cutting and hashing"
OURS, CARRYING = "Evervec", "Evervec, headings embedded"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=ChunkRecipe().tokens_max)
    parser.add_argument("--alone", action="store_true", help="without the other splitters")
    parser.add_argument("--folder", type=Path, help="Markdown to read instead of the packages'")
    parser.add_argument("--passes", type=int, default=5)
    asked = parser.parse_args()
    texts = list(markdown(asked.folder).values())
    cases = _cases([text for text in texts if len(text) >= LEAST], asked.edits)
    everything = [text for case in cases.values() for pair in case for text in pair]
    distinct = list(dict.fromkeys(everything))
    found: dict[str, dict[str, Any] | str] = {}
    for name, parts in _splits(distinct, asked.tokens, alone=asked.alone):
        if isinstance(parts, str):
            found[name] = parts
        else:
            known = dict(zip(distinct, parts, strict=True))
            found[name] = {
                "chunk_tokens": _sizes(parts),
                **{what: _shares(pairs, known) for what, pairs in cases.items()},
            }
    speed = rates(texts, passes=asked.passes)
    report(
        "chunks",
        [*_speed_lines(speed), *_stability_lines(found, list(cases))],
        tokens_max=asked.tokens,
        edits=asked.edits,
        documents={what: len({before for before, _ in pairs}) for what, pairs in cases.items()},
        splitters=found,
        versions=PACKAGES,
        speed=speed,
    )


def _cases(texts: Sequence[str], count: int) -> dict[str, list[tuple[str, str]]]:
    """Return pairs of a text and what an edit made of it, under what the edit was."""
    cases = {}
    for what, edit in EDITS.items():
        chance = random.Random(f"{SEED} {what}")
        edited = drawn(texts, edit, count=count, chance=chance)
        cases[what] = [(texts[number], text) for number, text in edited]
    prose = " ".join(paragraphs(1_500))
    shapes = {
        "sentences": prose[:UNBROKEN],
        "words": " ".join(re.findall(r"[A-Za-z]+", prose))[:UNBROKEN],
    }
    for shape, text in shapes.items():
        what = f"one inserted word, 40 KB of unbroken {shape}"
        edited = drawn([text], inserted_word, count=count, chance=random.Random(f"{SEED} {what}"))
        cases[what] = [(text, after) for _, after in edited]
    return cases


def _splits(
    texts: Sequence[str], tokens_max: int, *, alone: bool
) -> list[tuple[str, list[list[Part]] | str]]:
    text_alone = ChunkRecipe(tokens_max=tokens_max)
    with_headings = ChunkRecipe(tokens_max=tokens_max, heading_context=True)
    tokens = _Counting()
    found: list[tuple[str, list[list[Part]] | str]] = [
        (OURS, [_ours(text, tokens, text_alone) for text in texts]),
        (CARRYING, [_ours(text, tokens, with_headings) for text in texts]),
    ]
    for name in PACKAGES if not alone else ():
        parts = split(
            name,
            texts,
            tokenizer=TOKENIZER,
            tokens_max=tokens_max,
            folder=kept() / "splitters",
        )
        found.append((name, parts))
    return found


def _ours(text: str, tokens: TokenEnds, recipe: ChunkRecipe) -> list[Part]:
    parts = [part.embedded for part in chunk(text, kind="markdown", tokens=tokens, recipe=recipe)]
    counts = tokens.count_tokens(parts)
    return [
        (text_digest(part).hex(), len(part), count - 2)
        for part, count in zip(parts, counts, strict=True)
    ]


class _Counting:
    """The model's tokenizer, as the chunker knows it."""

    def __init__(self) -> None:
        # It keeps to this thread, since the rates are those of one core.
        self._tokens = Tokens(files.tokenizer(), parallel=False)

    def token_ends(self, text: str) -> Sequence[int]:
        return self._tokens.ends(text)

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return self._tokens.count(texts)


def _sizes(texts: Sequence[Sequence[Part]]) -> dict[str, float]:
    counts = [count for parts in texts for _, _, count in parts]
    return {"mean": round(statistics.mean(counts), 1), "most": max(counts)}


def _shares(
    pairs: Sequence[tuple[str, str]], known: dict[str, list[Part]]
) -> dict[str, dict[str, float]]:
    """Return the shares of chunks and of characters that are embedded anew, in per cent."""
    shares: dict[str, list[float]] = {"chunks": [], "characters": []}
    for before, after in pairs:
        old = {digest for digest, _, _ in known[before]}
        # A text that is there twice is embedded once.
        new = {digest: size for digest, size, _ in known[after]}
        fresh = new.keys() - old
        shares["chunks"].append(100 * len(fresh) / len(new))
        size = sum(new.values())
        shares["characters"].append(100 * sum(new[digest] for digest in fresh) / size)
    return {
        of: {"median": round(statistics.median(values), 1), "worst": round(max(values), 1)}
        for of, values in shares.items()
    }


class _Replayed:
    """Answers as the tokenizer did the first time, at once: what remains is the chunker's own time."""

    def __init__(self, tokens: TokenEnds) -> None:
        self._tokens = tokens
        self._ends: dict[str, Sequence[int]] = {}
        self._counts: dict[str, int] = {}

    def token_ends(self, text: str) -> Sequence[int]:
        if text not in self._ends:
            self._ends[text] = self._tokens.token_ends(text)
        return self._ends[text]

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        for text in texts:
            if text not in self._counts:
                (self._counts[text],) = self._tokens.count_tokens([text])
        return [self._counts[text] for text in texts]


def rates(texts: Sequence[str], *, passes: int) -> dict[str, float]:
    """Return megabytes a second of one core: of the best pass each, in turns."""
    recipe = ChunkRecipe()
    tokens = _Counting()
    replayed = _Replayed(tokens)

    def cut(using: TokenEnds) -> None:
        for text in texts:
            for part in chunk(text, kind="markdown", tokens=using, recipe=recipe):
                text_digest(part.embedded)

    def tokenise(using: Callable[[str], object]) -> None:
        for text in texts:
            using(text)

    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # One that remembers nothing yet for each pass.
    fresh = [_Counting() for _ in range(passes)]
    cut(replayed)
    timed: dict[str, Callable[[], None]] = {
        CUTTING: lambda: cut(replayed),
        "the tokenizer itself, each text once": lambda: tokenise(
            lambda text: tokenizer.encode(text, add_special_tokens=False).offsets
        ),
        "ends of tokens, runs remembered": lambda: tokenise(tokens.token_ends),
        "all of it, nothing remembered": lambda: cut(fresh.pop()),
        "all of it, runs remembered": lambda: cut(tokens),
    }
    seconds: dict[str, list[float]] = {what: [] for what in timed}
    for _ in range(passes):
        for what, run in timed.items():
            begun = time.process_time()
            run()
            seconds[what].append(time.process_time() - begun)
    size = sum(len(text.encode()) for text in texts) / 1e6
    return {"megabytes": round(size, 2)} | {
        what: round(size / min(spent), 2) for what, spent in seconds.items()
    }


def _speed_lines(speed: dict[str, float]) -> list[Line]:
    return [
        Line(what, rate, "MB/s", 50.0 if what == CUTTING else None, "at least")
        for what, rate in speed.items()
        if what != "megabytes"
    ]


def _stability_lines(found: dict[str, dict[str, Any] | str], cases: Sequence[str]) -> list[Line]:
    """Compare ours with whichever of the others is best at that edit."""
    lines = []
    others = [of for name, of in found.items() if name in PACKAGES and isinstance(of, dict)]
    for what in cases:
        for measure in ("median", "worst"):
            best = min((of[what]["chunks"][measure] for of in others), default=None)
            for name in (OURS, CARRYING) if "heading" in what else (OURS,):
                mine = found[name]
                if isinstance(mine, dict):
                    share = mine[what]["chunks"][measure]
                    lines.append(Line(f"{name}, {what}: {measure}", share, "%", best))
    return lines


if __name__ == "__main__":
    main()
