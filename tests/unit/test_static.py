"""The static tier: rows of a table, pinned, and honest about what they are."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from evervec.embedders import as_embedder, static
from evervec.embedders.static import StaticEmbedder
from evervec.errors import ConfigError, Unavailable


async def embedded(texts):
    model = StaticEmbedder(threads=1)
    vectors = await model.embed(texts, kind="document")
    await model.close()
    return vectors


async def test_a_text_is_nearest_to_one_about_the_same_thing():
    texts = [
        "the cat sat on the warm mat",
        "a kitten lay upon a cosy rug",
        "interest rates were raised by the central bank",
        "the bank decided that loans cost more",
    ]
    near = await embedded(texts)
    near = near @ near.T - np.eye(4)
    assert near.argmax(axis=1).tolist() == [1, 0, 3, 2]


async def test_a_text_is_the_mean_of_its_words_and_its_company_changes_nothing():
    texts = ["one two three", "", "  \n", "four", "one two three"]
    together = await embedded(texts)
    for text, row in zip(texts, together, strict=True):
        assert np.array_equal((await embedded([text]))[0], row)
    assert np.array_equal(together[1], together[2])


async def test_its_package_is_never_imported():
    await embedded(["text"])
    assert "wordllama" not in sys.modules


async def test_thousands_of_texts_a_second():
    texts = [f"paragraph {n}: leases expire unless they are renewed in time" for n in range(4000)]
    model = StaticEmbedder(threads=1)
    await model.embed(texts[:10], kind="document")
    used = time.process_time()
    await model.embed(texts, kind="document")
    used = time.process_time() - used
    await model.close()
    assert len(texts) / used > 2000


def test_it_says_that_it_is_rough():
    assert "rough" in StaticEmbedder().about
    assert StaticEmbedder().model.startswith("static-")


async def test_an_endless_word_is_read_by_its_beginning():
    assert (await embedded(["x" * 500_000])).shape == (1, 256)


async def test_without_its_package_the_line_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, static.PACKAGE, None)
    with pytest.raises(ConfigError, match="no package 'wordllama'") as refused:
        await embedded(["text"])
    assert "pip install 'evervec[static]'" in str(refused.value)


async def test_other_rows_under_the_same_name_are_refused(monkeypatch, tmp_path):
    folder = tmp_path / static.PACKAGE
    for name in (static.ROWS, static.TOKENIZER):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"something else")
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="is not the file the static model needs"):
        await embedded(["text"])


async def test_a_closed_model_says_so():
    model = as_embedder("static")
    await model.close()
    with pytest.raises(Unavailable, match="closed"):
        await model.embed(["text"], kind="query")


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what this process holds")
def test_texts_that_were_counted_are_not_remembered_for_ever():
    """Found by a backfill whose memory grew by a kilobyte a row: the tokenizer kept each text."""

    def resident():
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line)

    model = StaticEmbedder(threads=1)
    texts = [f"the lease number {n} of this worker was renewed. " * 3 for n in range(4_000)]
    model.count_tokens(texts[:500])
    before = resident()
    model.count_tokens(texts)
    assert resident() - before < 6_000
