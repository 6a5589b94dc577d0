"""A folder of every format: each file is found by its words, on its page; what is broken fails alone."""

import json
import os
from email.message import EmailMessage
from pathlib import Path

import pytest
from tests.tour.shop import found, searchable, until

import evervec
from evervec.model import State, show_id
from evervec.testing import documents

pytestmark = pytest.mark.anyio


PAGE = [f"{n} words fill a page of paper until it is full" for n in range(40)]


def mail(word: str) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = f"About {word}", "ada@example.org"
    message.set_content("the body")
    return message.as_bytes()


def written(word: str) -> dict[str, bytes]:
    """Return a file of each format that holds *word*."""
    cells = [{"cell_type": "code", "source": f"x = '{word}'"}]
    return {
        "a.md": f"# {word}".encode(),
        "a.rst": f"{word}\n======\n".encode(),
        "a.txt": word.encode(),
        "a.html": f"<h1>{word}</h1>".encode(),
        "a.pdf": documents.pdf([PAGE, [word, *PAGE]]),
        "a.docx": documents.docx(["first", f"\f# {word}"]),
        "a.pptx": documents.pptx([("first", ["x"], ""), ("second", [word], "")]),
        "a.xlsx": documents.xlsx({"first": [["x"]], "second": [["name", "y"], [word, 2]]}),
        "a.csv": f"name,price\n{word},2\n".encode(),
        "a.json": json.dumps({"name": word}).encode(),
        "a.jsonl": json.dumps({"name": word}).encode(),
        "a.eml": mail(word),
        "a.ipynb": json.dumps({"cells": cells}).encode(),
        "a.py": f"def {word}():\n    pass\n".encode(),
    }


async def test_every_format_is_found_and_followed(notes, state, model):
    for name, data in written("zebra").items():
        (notes / name).write_bytes(data)
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await searchable(collection, "zebra", *written("zebra"))
        pages = {hit.id: hit.page for hit in await collection.search("zebra", 50, mode="lexical")}
        paged = {name: page for name, page in pages.items() if page is not None}
        assert paged == {"a.pdf": 2, "a.docx": 2, "a.pptx": 2, "a.xlsx": 2}

        for name, data in written("okapi").items():
            (notes / name).write_bytes(data)
        await searchable(collection, "okapi", *written("okapi"))
        assert await found(collection, "zebra") == []
        await collection.synced()
        assert (await collection.verify()).drift == 0


async def test_pages_stay_where_a_template_puts_something_before_the_text(notes, state, model):
    (notes / "a.pdf").write_bytes(documents.pdf([PAGE, ["zebra", *PAGE]]))
    async with evervec.App(state, model=model) as app:
        spec = evervec.folder(notes)
        collection = app.collection("notes", source=spec, text="{title} {path}\n\n{text}")
        await searchable(collection, "zebra", "a.pdf")
        (hit,) = await collection.search("zebra", mode="lexical")
        assert (hit.page, hit.text.split()[0]) == (2, "zebra")
        (hit,) = await collection.search("a.pdf", mode="lexical")
        assert (hit.page, hit.start) == (1, 0)


async def test_a_page_that_moved_is_known_without_embedding_anything(notes, state, model):
    """The slide before is gone: the text of the next is the same, on another page."""
    long = " ".join(["zebra", *(f"word{n}" for n in range(150))])
    first = documents.pptx([("One", ["x"], ""), ("Two", ["y"], ""), ("Three", [long], "")])
    (notes / "a.pptx").write_bytes(first)
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        (hit,) = await collection.search("zebra", mode="lexical")
        assert hit.page == 3
        asked = model.asked.total()

        (notes / "a.pptx").write_bytes(documents.pptx([("One", ["x"], ""), ("Three", [long], "")]))
        await searchable(collection, "Two")
        (hit,) = await collection.search("zebra", mode="lexical")
        assert hit.page == 2
        assert model.asked.total() == asked


BROKEN = {
    "cut.pdf": (documents.pdf([["x"]])[:200], "is damaged"),
    "scan.pdf": (documents.pdf([[]]), "holds no text"),
    "locked.pdf": (documents.pdf([["x"]], locked=True), "password"),
    "bomb.docx": (documents.zipped({"a": bytes(20_000_000)}), "times its size"),
    "cut.xlsx": (documents.xlsx({"A": [["x"]]})[:-40], "is damaged"),
    "old.pptx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "format before 2007"),
    "cut.json": (b'{"a": ', "no JSON"),
    "kanji.csv": ("名前,値段\n日本語のテキスト。,2\n".encode("shift-jis"), "UTF-8"),
}


async def test_what_is_broken_fails_alone_with_its_reason(notes, state, model):
    for name, (data, _) in BROKEN.items():
        (notes / name).write_bytes(data)
    (notes / "huge.pdf").write_bytes(b"%PDF-1.7")
    os.truncate(notes / "huge.pdf", 2_000_000_000)
    for name, data in written("zebra").items():
        (notes / name).write_bytes(data)
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        assert set(await found(collection, "zebra")) == set(written("zebra"))
        reasons = {}

        async def all_told() -> bool:
            # A file that was just written is looked at once more; meanwhile it has not failed.
            for job in await app.state.queue.jobs(states=(State.FAILED,)):
                reasons[show_id(job.key.id)] = job.reason
            return reasons.keys() >= BROKEN.keys() | {"huge.pdf"}

        await until(all_told, "every broken file's reason")
        assert reasons.keys() == BROKEN.keys() | {"huge.pdf"}
        for name, (_, reason) in BROKEN.items():
            assert reason in reasons[name], name
            assert f"'{name}'" in reasons[name], name
            assert "\n  " in reasons[name], name  # what to do
        assert "more than 200,000,000 bytes" in reasons["huge.pdf"]
        assert "file_bytes_max" in reasons["huge.pdf"]


SCRIPTS = {
    "hebrew.docx": ("שלום עולם, זה מסמך בעברית", "שלום"),
    "arabic.html": ("مرحبا بالعالم هذا مستند", "مرحبا"),
    "chinese.xlsx": ("我们在东京喝绿茶", "东京"),
    "japanese.txt": ("東京で緑茶を飲みます。", "緑茶"),
    "thai.csv": ("สวัสดีชาวโลก", "สวัสดี"),
    "mixed.md": ("Ελληνικά и кириллица und Umläute", "кириллица"),
}


def file_of(folder: Path, name: str, text: str) -> None:
    encodings = {"arabic.html": "utf-8", "japanese.txt": "utf-16", "thai.csv": "utf-8-sig"}
    data = {
        ".docx": lambda: documents.docx([text]),
        ".xlsx": lambda: documents.xlsx({"A": [[text]]}),
    }.get(Path(name).suffix, lambda: text.encode(encodings.get(name, "utf-8")))()
    (folder / name).write_bytes(data)


async def test_texts_in_any_script_are_found(notes, state, model):
    for name, (text, _) in SCRIPTS.items():
        file_of(notes, name, text)
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        for name, (_, word) in SCRIPTS.items():
            assert await found(collection, word) == [name]
