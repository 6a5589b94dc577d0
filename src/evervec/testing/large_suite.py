"""What every store promises of large documents. Derive from `LargeSuite` beside `StoreSuite`."""

import asyncio

from evervec.model import Verdict
from evervec.testing.store_suite import (
    HOME,
    NEW,
    OLD,
    SetClock,
    WholeStore,
    dense,
    digest_of,
    key_of,
    lexical,
    publication,
    put,
    remove,
    texts_of,
    vector_of,
)

CHUNKS = 2_500
"""More than a store publishes at once."""
ORDER = ((1, 0), (1, 1), (0, 1))
"""How many documents have the old words and the new ones, asked one after the other."""


class LargeSuite:
    """Large documents, in a store that the deriving class gives as `store`."""

    async def test_a_large_document_is_published_in_one_step(self, store: WholeStore) -> None:
        """Whoever searches meanwhile finds the old set or the new one, whole, and its mates."""
        old, new = _pages("ebb", CHUNKS), _pages("flow", CHUNKS)
        await put(store, "mate", [OLD])
        assert await put(store, "a", old) is Verdict.PUBLISHED
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in new})
        publishing = asyncio.create_task(
            store.publish([publication("a", new, version=2)], fence=2, space=1)
        )
        seen = []
        while not publishing.done():
            ebb, flow = await lexical(store, "ebb"), await lexical(store, "flow")
            near = await dense(store, new[-1], k=2)
            seen.append((len(ebb), len(flow)))
            # The two searches are not one: in between the set may change, once.
            assert seen[-1] in ORDER
            assert [hit.id for hit in near if hit.id == "a"] == ["a"]
            assert [hit.id for hit in await lexical(store, "old")] == ["mate"]
            assert (await store.counts(HOME)).chunks == CHUNKS + 1
        assert await publishing == [Verdict.PUBLISHED]
        assert seen == sorted(seen, key=ORDER.index)
        assert sum(both == (1, 1) for both in seen) <= 1

        assert await lexical(store, "ebb") == []
        assert (await dense(store, new[-1]))[0].text == new[-1]
        assert await store.damaged(HOME) == []
        counts = await store.counts(HOME)
        assert (counts.documents, counts.chunks) == (2, CHUNKS + 1)

        assert await remove(store, "a", version=3, fence=3) is Verdict.PUBLISHED
        assert await lexical(store, "flow") == []
        assert [hit.id for hit in await dense(store, new[-1])] == ["mate"]
        assert (await store.counts(HOME)).chunks == 1
        assert await put(store, "a", [OLD], version=2, fence=2) is Verdict.SUPERSEDED

    async def test_a_large_document_that_lacks_a_vector_changes_nothing(
        self, store: WholeStore
    ) -> None:
        pages = _pages("ebb", CHUNKS)
        await put(store, "a", [OLD])
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in pages[:-1]})

        (verdict,) = await store.publish([publication("a", pages, version=2)], fence=2, space=1)

        assert verdict is Verdict.INCOMPLETE
        assert await texts_of(store, "a") == {OLD}
        assert await lexical(store, "ebb") == []
        assert (await store.counts(HOME)).chunks == 1
        assert await put(store, "a", pages, version=2, fence=2) is Verdict.PUBLISHED
        assert len(await lexical(store, "ebb")) == 1

    async def test_of_two_who_publish_a_large_document_the_newer_one_stays(
        self, store: WholeStore
    ) -> None:
        old, new = _pages("ebb", CHUNKS), _pages("flow", CHUNKS)
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in [*old, *new]})

        late, early = await asyncio.gather(
            store.publish([publication("a", old, version=1)], fence=1, space=1),
            store.publish([publication("a", new, version=2)], fence=2, space=1),
        )

        assert early == [Verdict.PUBLISHED]
        assert late in ([Verdict.SUPERSEDED], [Verdict.INCOMPLETE], [Verdict.PUBLISHED])
        assert await lexical(store, "ebb") == []
        assert len(await lexical(store, "flow")) == 1
        assert (await store.counts(HOME)).chunks == CHUNKS

    async def test_it_is_told_how_far_a_large_document_is_until_it_is_published(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        await put(store, "mate", [OLD])
        for done, total in ((1, 3), (2, 4)):
            await store.advance(key_of("a"), done, total)
        (coming,) = (await store.counts(HOME)).coming
        assert (coming.id, coming.done, coming.total) == (key_of("a").id, 2, 4)

        clock.time += 1
        await put(store, "a", [NEW])
        assert (await store.counts(HOME)).coming == ()
        clock.time += 1
        await store.advance(key_of("a"), 1, 3)
        assert len((await store.counts(HOME)).coming) == 1


def _pages(word: str, count: int) -> list[str]:
    return [f"{word} page {number}" for number in range(count)]
