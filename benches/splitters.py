"""The splitters of other projects, each run in an environment that the benchmark makes for it.

This file is two things: the benchmark's door (`split`), and the program that runs in there
(`python splitters.py NAME TOKENIZER TOKENS`), which knows nothing of this project. It reads a JSON
list of texts and answers for each a list of [digest, characters, tokens], one for each text that
would be embedded.

Every splitter is asked for the same most tokens of the same tokenizer, without overlap; whatever
else it can be told stays at its default. CocoIndex counts bytes, so it is given as many as that many
tokens have in these texts on average.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Split: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the texts to embed."""
Part: TypeAlias = tuple[str, int, int]
"""Of a chunk: its digest, how many characters and tokens it has."""

PACKAGES = {
    "LangChain Markdown": "langchain-text-splitters==1.1.3",
    "LangChain recursive": "langchain-text-splitters==1.1.3",
    "LlamaIndex sentence": "llama-index-core==0.14.25",
    "LlamaIndex Markdown": "llama-index-core==0.14.25",
    "CocoIndex recursive": "cocoindex==1.0.26",
}
TOKENIZERS = "tokenizers==0.23.3"


def split(
    name: str, texts: Sequence[str], *, tokenizer: Path, tokens_max: int, folder: Path
) -> list[list[Part]] | str:
    """Return what *name* makes of each text, or why it could not."""
    # Imported here because the other half of this file runs where there is no such module.
    from benches.reading import pip

    place = folder / PACKAGES[name]
    python = str(place / "bin" / "python")
    try:
        if not (place / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
            pip("install", "--quiet", PACKAGES[name], TOKENIZERS, python=python)
            (place / "ready").touch()
        done = subprocess.run(
            [python, __file__, name, tokenizer, str(tokens_max)],
            input=json.dumps(texts),
            stdout=subprocess.PIPE,
            env={**os.environ, "COCOINDEX_DISABLE_USAGE_TRACKING": "1"},
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        # What went wrong inside stands in stderr already.
        return f"{PACKAGES[name]}: {type(error).__name__}"
    return [[(name, size, count) for name, size, count in row] for row in json.loads(done.stdout)]


class _Size(NamedTuple):
    ids: Callable[[str], list[int]]
    tokens_max: int
    token_bytes: float
    """How long a token of these texts is on average."""

    def tokens(self, text: str) -> int:
        return len(self.ids(text))


def _langchain(kind: str) -> Callable[[_Size], Split]:
    def made(size: _Size) -> Split:
        splitter = getattr(import_module("langchain_text_splitters"), kind)(
            chunk_size=size.tokens_max, chunk_overlap=0, length_function=size.tokens
        )
        split_text: Split = splitter.split_text
        return split_text

    return made


def _sentences(size: _Size) -> Any:
    return import_module("llama_index.core.node_parser").SentenceSplitter(
        chunk_size=size.tokens_max, chunk_overlap=0, tokenizer=size.ids
    )


def _llama_sentence(size: _Size) -> Split:
    split_text: Split = _sentences(size).split_text
    return split_text


def _llama_markdown(size: _Size) -> Split:
    """Its sections have any length, so they go on to the sentence splitter."""
    core = import_module("llama_index.core")
    embedded: Any = import_module("llama_index.core.schema").MetadataMode.EMBED
    sections = import_module("llama_index.core.node_parser").MarkdownNodeParser()
    sentences = _sentences(size)

    def made(text: str) -> list[str]:
        nodes = sentences(sections([core.Document(text=text)]))
        return [node.get_content(metadata_mode=embedded) for node in nodes]

    return made


def _cocoindex(size: _Size) -> Split:
    made = import_module("cocoindex.ops.text").RecursiveSplitter()
    most = int(size.tokens_max * size.token_bytes)
    return lambda text: [part.text for part in made.split(text, most, language="markdown")]


SPLITTERS: dict[str, Callable[[_Size], Split]] = {
    "LangChain Markdown": _langchain("MarkdownTextSplitter"),
    "LangChain recursive": _langchain("RecursiveCharacterTextSplitter"),
    "LlamaIndex sentence": _llama_sentence,
    "LlamaIndex Markdown": _llama_markdown,
    "CocoIndex recursive": _cocoindex,
}


def _serve(name: str, definition: str, tokens_max: int) -> None:
    tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def part(chunk: str) -> Part:
        return hashlib.sha256(chunk.encode()).hexdigest()[:32], len(chunk), len(ids(chunk))

    texts = json.load(sys.stdin)
    token_bytes = sum(len(text.encode()) for text in texts) / sum(len(ids(text)) for text in texts)
    split_one = SPLITTERS[name](_Size(ids, tokens_max, token_bytes))
    print(json.dumps([[part(chunk) for chunk in split_one(text)] for text in texts]))


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
