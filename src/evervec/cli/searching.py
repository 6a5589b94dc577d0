"""search: hits for people and programs, why they are hits, and how many of them are found."""

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from evervec.app import App
from evervec.cli.opening import looking, run, say, say_json, shown
from evervec.errors import ConfigError
from evervec.model import Explained, Hit, Recall, Standing, encode_id, show_id
from evervec.rerank import Rerank

EXCERPT = 160
RECALL_LEAST = 0.97
JUDGED_FOR = 30.0
"""Seconds that somebody waits who asked for a reranker by hand."""
_CONDITION = re.compile(r"([^=!<>]+)(<=|>=|!=|=|<|>)(.*)", re.DOTALL)
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def search(asked: argparse.Namespace) -> int:
    return run(_search(asked))


async def _search(asked: argparse.Namespace) -> int:
    if asked.check_recall is not None and asked.query is not None:
        raise ConfigError(
            "--check-recall takes no query", hint="its queries are vectors that are stored"
        )
    async with looking(asked) as app:
        if asked.check_recall is not None:
            return await _check_recall(app, asked)
        if asked.query is None:
            raise ConfigError("nothing is asked", hint="write evervec search 'a question'")
        hits = await app.search(
            asked.query,
            asked.k,
            mode=asked.mode,
            where=_conditions(asked.where),
            collections=asked.collection,
            tenant=asked.tenant,
            explain=asked.explain,
            rerank=_judge(asked.rerank),
        )
        # Asked only of those who found nothing: it is one more look into the state.
        known = bool(hits) or any(
            each.scope.tenant == asked.tenant for each in await app.collections()
        )
    if asked.json:
        say_json({"hits": [_hit(hit) for hit in hits]})
        return 0
    if not hits and not asked.quiet:
        whose = f" for tenant {asked.tenant!r}" if asked.tenant else ""
        say("Nothing found." if known else f"No collection is registered{whose}.")
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for hit in hits:
        stale = "" if hit.fresh else "  (a newer text is on its way)"
        page = f", page {hit.page}" if hit.page else ""
        heading = f"  {hit.heading}" if hit.heading else ""
        say(f"{hit.score:.3f}  {hit.collection}  {_id(hit)}{page}{heading}{stale}")
        print(f"       {_excerpt(hit.text, hit.highlights, bold=bold)}", flush=True)
        if hit.explained:
            say(f"       {_why(hit.explained)}")
    return 0


def _judge(folder: str | None) -> Rerank | None:
    if folder is None:
        return None
    from evervec.embedders.crossencoder import CrossEncoder

    return Rerank(CrossEncoder(folder), seconds=JUDGED_FOR)


async def _check_recall(app: App, asked: argparse.Namespace) -> int:
    measured = await app.check_recall(
        asked.check_recall, collections=asked.collection, tenant=asked.tenant
    )
    enough = all(each.recall >= RECALL_LEAST for each in measured)
    if asked.json:
        say_json(
            {
                "enough": enough,
                "least": RECALL_LEAST,
                "collections": [_recall(each) for each in measured],
            }
        )
        return 0 if enough else 3
    for each in measured:
        say(
            f"{each.collection}: recall@10 {each.recall:.3f} by {each.index}, "
            f"{each.sampled:,} of {each.chunks:,} chunks asked; a query compares "
            f"{each.compared:,} and takes {each.milliseconds:.1f} ms, "
            f"an exact one {each.exact_milliseconds:.1f} ms"
        )
    if not measured and not asked.quiet:
        say("Nothing is stored.")
    if not enough:
        say(f"Below {RECALL_LEAST}: delete the index folder beside the state; it is built again.")
    return 0 if enough else 3


def _conditions(written: list[str]) -> dict[str, Any]:
    """Read conditions; of several values that one field may equal, any will do."""
    conditions: dict[str, dict[str, Any]] = {}
    for condition in written:
        read = _CONDITION.fullmatch(condition)
        if read is None:
            raise ConfigError(
                f"--where {condition!r} is no condition",
                hint="write FIELD=VALUE, like lang=en, or one with != < <= > >=, like 'price<10'",
            )
        field, comparison, value = read.groups()
        mine = conditions.setdefault(field, {})
        if comparison in {"=", "!="}:
            mine.setdefault(comparison, []).append(_typed(value))
        elif comparison in mine:
            raise ConfigError(
                f"--where {condition!r} compares {field!r} twice by {comparison}",
                hint="give the narrower one alone",
            )
        else:
            mine[comparison] = _typed(value)
    return conditions


def _typed(value: str) -> Any:
    for reads in (int, float):
        try:
            number = reads(value)
        except ValueError:
            continue
        # `nan` and `inf` are names of something, not numbers to look for.
        return number if math.isfinite(number) else value
    return {"true": True, "false": False, "null": None}.get(value, value)


def _hit(hit: Hit) -> dict[str, Any]:
    told = {
        "collection": hit.collection,
        "id": hit.id.hex() if isinstance(hit.id, bytes) else hit.id,
        "score": round(hit.score, 6),
        "text": hit.text,
        "start": hit.start,
        "end": hit.end,
        "fresh": hit.fresh,
        "heading": hit.heading,
        "page": hit.page,
        "metadata": dict(hit.metadata),
        "highlights": [list(place) for place in hit.highlights],
    }
    if hit.reranked is not None:
        told["reranked"] = round(hit.reranked, 6)
    if hit.explained:
        told["explained"] = {
            "dense": _standing(hit.explained.dense),
            "lexical": _standing(hit.explained.lexical),
            "words": list(hit.explained.words),
            "index": hit.explained.index,
            "compared": hit.explained.compared,
        }
    return told


def _standing(standing: Standing | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {"rank": standing.rank, "score": round(standing.score, 6)}


def _recall(recall: Recall) -> dict[str, Any]:
    return {
        "collection": recall.collection,
        "chunks": recall.chunks,
        "sampled": recall.sampled,
        "recall": round(recall.recall, 4),
        "index": recall.index,
        "compared": recall.compared,
        "milliseconds": round(recall.milliseconds, 2),
        "exact_milliseconds": round(recall.exact_milliseconds, 2),
    }


def _why(explained: Explained) -> str:
    told = [
        f"{name} #{standing.rank} ({standing.score:.3f})"
        for name, standing in (("vectors", explained.dense), ("words", explained.lexical))
        if standing
    ]
    if explained.words:
        told.append("has " + ", ".join(explained.words))
    if explained.index == "codes":
        told.append(f"compared {explained.compared:,} chosen by codes")
    elif explained.index == "exact":
        told.append(f"compared all {explained.compared:,}")
    return " · ".join(told)


def _id(hit: Hit) -> str:
    return show_id(encode_id(hit.id)) if isinstance(hit.id, str) else repr(hit.id)


def _excerpt(text: str, places: Sequence[tuple[int, int]], *, bold: bool) -> str:
    """Return a line of *text*, from its start or from shortly before the first word asked for."""
    begin = 0
    if places and places[0][1] > EXCERPT:
        begin = text.rfind(" ", 0, max(0, places[0][0] - EXCERPT // 4)) + 1
    marked = {at for first, last in places for at in range(first, last)}
    letters: list[tuple[str, bool]] = [("…", False)] if begin else []
    for at in range(begin, len(text)):
        if len(letters) == EXCERPT:
            letters[-1] = ("…", False)
            break
        if not text[at].isspace():
            letters.append((text[at], at in marked))
        elif letters and letters[-1][0] != " ":
            letters.append((" ", at in marked))
    line = ""
    for lit, some in groupby(letters, key=lambda letter: letter[1]):
        part = shown("".join(letter for letter, _ in some))
        line += f"{BOLD}{part}{PLAIN}" if lit and bold else part
    return line.rstrip()
