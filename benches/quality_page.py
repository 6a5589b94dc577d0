"""The tables of docs/quality.md, from the results of `chunks` and `quality`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

Result: TypeAlias = Mapping[str, Any]

NOTHING = "\N{EN DASH}"


def filled(page: str, results: Mapping[str, Result]) -> str:
    """Return *page* with every table whose benchmark was run; the others stay as they are."""
    for name, (bench, make) in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if bench in results and begin in page:
            before, _, rest = page.partition(begin)
            _, _, after = rest.partition(end)
            page = f"{before}{begin}\n\n{make(results[bench]['numbers'])}\n\n{end}{after}"
    return page


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def edits(numbers: Result, *, of: str = "chunks") -> str:
    """Return a row for each splitter and a column for each edit: median / worst, in per cent."""
    splitters: Mapping[str, Any] = numbers["splitters"]
    whats = [what for what in next(iter(splitters.values())) if what != "chunk_tokens"]
    rows = []
    for name, found in splitters.items():
        if isinstance(found, str):
            rows.append([name, *[NOTHING for _ in (*whats, "size")]])
            continue
        shares = [found[what][of] for what in whats]
        sizes = found["chunk_tokens"]
        told = [f"{share['median']:g} / {share['worst']:g}" for share in shares]
        rows.append([name, f"{sizes['mean']:g} / {sizes['most']}", *told])
    return _rows(["splitter", "tokens a chunk, mean / most", *whats], rows)


def speed(numbers: Result) -> str:
    rates = {what: rate for what, rate in numbers["speed"].items() if what != "megabytes"}
    return _rows(["of one core", "MB/s"], [[what, f"{rate:g}"] for what, rate in rates.items()])


def ways(numbers: Result) -> str:
    """Return a row for each way to cut and embed."""
    rows = []
    for name, way in numbers["ways"].items():
        told = [f"{way[mode]['ndcg@10']:.3f}" for mode in ("dense", "lexical", "hybrid")]
        hybrid = way["hybrid"]
        rows.append(
            [
                name,
                f"{way['chunks']:,}",
                *told,
                f"{hybrid['recall@10']:.3f}",
                f"{hybrid['within 1,000 tokens']:.3f}",
                "" if name == "default" else _difference(way["against_default"]["dense"]),
                "" if name == "default" else _difference(way["against_default"]["hybrid"]),
            ]
        )
    head = ["way", "chunks", "dense", "lexical", "hybrid", "recall@10", "within 1,000 tokens"]
    return _rows([*head, "dense, to the default", "hybrid, to the default"], rows)


def kinds(numbers: Result) -> str:
    """Return nDCG@10 of each kind of question."""
    modes = ("baseline", "dense", "lexical", "hybrid")
    rows = [
        [f"`{kind}`", *[f"{found[mode]['ndcg@10']:.3f}" for mode in modes]]
        for kind, found in numbers["kinds"].items()
    ]
    return _rows(["kind", *modes], rows)


def recalls(numbers: Result) -> str:
    """Return recall@10 of each way, by mode."""
    modes = ("dense", "lexical", "hybrid")
    rows = [
        [name, *[f"{way[mode]['recall@10']:.3f}" for mode in modes]]
        for name, way in numbers["ways"].items()
    ]
    return _rows(["recall@10", *modes], rows)


def joining(numbers: Result, *, of: str = "joining") -> str:
    """Return nDCG@10 of each share of the words, for each offset."""
    found = {(row["words"], row["offset"]): row for row in numbers[of]}
    shares = sorted({words for words, _ in found})
    offsets = sorted({offset for _, offset in found})
    rows = [
        [f"{words:g}", *[f"{found[words, offset]['ndcg@10']:.3f}" for offset in offsets]]
        for words in shares
    ]
    return _rows(["share of the words", *[f"offset {offset}" for offset in offsets]], rows)


def _difference(compared: Mapping[str, Any]) -> str:
    low, high = compared["middle_95"]
    return f"{compared['difference']:+.3f} ± {(high - low) / 2:.3f}"


TABLES: Mapping[str, tuple[str, Callable[[Result], str]]] = {
    "edits": ("chunks", edits),
    "characters": ("chunks", partial(edits, of="characters")),
    "speed": ("chunks", speed),
    "ways": ("quality", ways),
    "kinds": ("quality", kinds),
    "recalls": ("quality", recalls),
    "joining": ("quality", joining),
    "joining of static": ("quality", partial(joining, of="joining_static")),
}
"""Each table of the page: the benchmark it is from, and what makes it."""
