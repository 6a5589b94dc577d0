"""What parsing costs, as a share of what embedding the same texts costs with the bare model.

Each format holds the same paragraphs, twenty to a file, and is parsed as in a followed folder: by
the process for it, pipes included. The bare model's rate is measured on these very paragraphs in
the same run, before and after; the faster of both counts.

    python -m benches.parsing [TEXTS] [--passes 3]
"""

import argparse
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from benches.corpus import paragraphs
from benches.model import measure
from benches.report import Line, report

from evervec.parsing import ParserProcess
from evervec.testing import documents

TOGETHER = 20
SHARE_MOST = 0.15


def html(texts: Sequence[str]) -> bytes:
    body = "".join(f"<h2>Part {n}</h2>\n<p>{escape(text)}</p>\n" for n, text in enumerate(texts))
    head = "<head><title>Parts</title><style>p { margin: 0 }</style></head>"
    menu = "".join(f"<li><a href='#{n}'>Part {n}</a></li>" for n in range(50))
    return f"<html>{head}<body><nav><ul>{menu}</ul></nav>{body}</body></html>".encode()


def pdf(texts: Sequence[str]) -> bytes:
    lines = [line for text in texts for line in [*textwrap.wrap(text, 100), ""]]
    return documents.pdf([lines[at : at + 60] for at in range(0, len(lines), 60)])


def docx(texts: Sequence[str]) -> bytes:
    return documents.docx([part for n, text in enumerate(texts) for part in (f"## Part {n}", text)])


def xlsx(texts: Sequence[str]) -> bytes:
    rows = [(n, text, n * 1.5) for n, text in enumerate(texts)]
    return documents.xlsx({"Parts": [("number", "text", "price"), *rows]})


FORMATS: Mapping[str, Callable[[Sequence[str]], bytes]] = {
    "html": html,
    "pdf": pdf,
    "docx": docx,
    "xlsx": xlsx,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="?", type=int, default=3000)
    parser.add_argument("--passes", type=int, default=3)
    asked = parser.parse_args()
    texts = paragraphs(asked.texts)
    rate = measure(texts, passes=1).texts_per_s
    spent, numbers = {}, {}
    process = ParserProcess()
    try:
        start = time.perf_counter()
        process.protection()
        started = time.perf_counter() - start
        for name, written in FORMATS.items():
            files = [written(part) for part in together(texts)]
            seconds, characters = best(process, name, files, asked.passes)
            spent[name] = seconds
            numbers[name] = {
                "files": len(files),
                "bytes": sum(map(len, files)),
                "characters": characters,
                "seconds": round(seconds, 4),
            }
    finally:
        process.close()
    rate = max(rate, measure(texts, passes=1).texts_per_s)
    embedding = len(texts) / rate
    report(
        "parsing",
        [
            Line(f"{name}: parsing ÷ embedding", round(each / embedding, 4), "", SHARE_MOST)
            for name, each in spent.items()
        ],
        texts=len(texts),
        bare_texts_per_s=rate,
        embedding_seconds=round(embedding, 3),
        process_start_ms=round(started * 1000, 1),
        **numbers,
    )


def together(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER))


def best(
    process: ParserProcess, name: str, files: Sequence[bytes], passes: int
) -> tuple[float, int]:
    """Return the seconds of the best pass, and how many characters came out of it."""
    seconds, characters = float("inf"), 0
    for _ in range(passes):
        start = time.perf_counter()
        characters = sum(len(process.parse(f"a.{name}", file).text) for file in files)
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, characters


if __name__ == "__main__":
    main()
