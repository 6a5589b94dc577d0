"""Another program: it writes a table or a folder at random and knows nothing of Evervec.

    writer.py table|folder PLACE SEED SHARED

It runs until SIGTERM, finishes its transaction and ends. SHARED 1: texts are also copied and
moved between documents, and come back; 0: each text is written once and never again.
"""

import os
import random
import select
import signal
import sqlite3
import sys
from pathlib import Path

IDS = 40
stopping = False


def stop(*_: object) -> None:
    global stopping  # noqa: PLW0603 - a signal handler has no other place
    stopping = True


class Texts:
    """Texts that differ, unless sharing is on. Some are so long that they make several chunks."""

    def __init__(self, seed: int, *, shared: bool) -> None:
        self.random = random.Random(seed)
        self._seed, self._shared = seed, shared
        self._count = 0
        self._written: list[tuple[str, str]] = []

    def draw(self) -> tuple[str, str]:
        if self._shared and self._written and self.random.random() < 0.3:
            return self.random.choice(self._written)
        self._count += 1
        title = f"title {self._count} of {self._seed} in {os.getpid()}"
        words = self.random.choice((1, 8, 8, 8, 700))
        body = " ".join(f"w{self._count}x{place}" for place in range(words))
        self._written.append((title, body))
        return title, body


def write_table(place: Path, texts: Texts) -> None:
    dice = texts.random
    connection = sqlite3.connect(place, timeout=30, isolation_level=None)
    shared = texts._shared
    while not stopping:
        connection.execute("begin immediate")
        for _ in range(dice.choice((1, 1, 2, 6))):
            one_change(connection, dice, texts, shared=shared)
        connection.execute("rollback" if dice.random() < 0.15 else "commit")
        pause(dice)
    connection.close()


def one_change(
    connection: sqlite3.Connection, dice: random.Random, texts: Texts, *, shared: bool
) -> None:
    id_, (title, body) = dice.randrange(IDS), texts.draw()
    match dice.choice(("put", "put", "update", "update", "delete", "again", "rekey", "touch")):
        case "put":
            connection.execute(
                "insert or replace into article (id, title, body) values (?, ?, ?)",
                (id_, title, body),
            )
        case "update":
            connection.execute(
                "update article set title = ?, body = ? where id = ?", (title, body, id_)
            )
        case "delete":
            connection.execute("delete from article where id = ?", (id_,))
        case "again":
            connection.execute("delete from article where id = ?", (id_,))
            connection.execute(
                "insert into article (id, title, body) values (?, ?, ?)", (id_, title, body)
            )
        case "rekey":
            # With its text, a copy in effect; without sharing the text changes too.
            connection.execute(
                "update or replace article set id = ?, title = iif(?, title, ?),"
                " body = iif(?, body, ?) where id = ?",
                (dice.randrange(IDS), shared, title, shared, body, id_),
            )
        case _:
            connection.execute("update article set views = views + 1 where id = ?", (id_,))


def write_folder(place: Path, texts: Texts) -> None:
    dice = texts.random
    while not stopping:
        file = place / f"{dice.randrange(IDS)}.txt"
        match dice.choice(("write", "write", "swap", "delete", "move")):
            case "write":
                file.write_text("\n\n".join(texts.draw()), encoding="utf-8")
            case "swap":
                fresh = place / ".fresh"
                fresh.write_text("\n\n".join(texts.draw()), encoding="utf-8")
                fresh.replace(file)
            case "delete":
                file.unlink(missing_ok=True)
            case _:
                if texts._shared and file.exists():
                    file.replace(place / f"{dice.randrange(IDS)}.txt")
        pause(dice)


def pause(dice: random.Random) -> None:
    select.select([], [], [], dice.choice((0, 0.002, 0.01, 0.03)))


def main() -> None:
    kind, place, seed, shared = sys.argv[1:]
    signal.signal(signal.SIGTERM, stop)
    texts = Texts(int(seed), shared=shared == "1")
    (write_table if kind == "table" else write_folder)(Path(place), texts)


if __name__ == "__main__":
    main()
