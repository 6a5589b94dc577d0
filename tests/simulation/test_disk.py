"""The disk that loses power: it must lose what SQLite does not sync, and nothing else."""

import random
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from evervec.testing.powerloss import Disk


def rows_after_loss(folder: Path, synchronous: str, seed: int) -> tuple[int, int, str]:
    """Insert until the power goes; return what was acknowledged, what is there, and its health."""
    dice = random.Random(seed)
    disk = Disk()
    path = folder / f"{synchronous}{seed}.db"
    connection = apsw.Connection(disk.uri(path), flags=apsw.SQLITE_OPEN_URI | 6)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", synchronous)
    connection.pragma("wal_autocheckpoint", 8)
    connection.execute("create table written(number integer primary key, padding blob)")
    disk.cut_at = disk.calls + dice.randrange(1, 150)
    acknowledged = 0
    try:
        for number in range(1000):
            padding = dice.randbytes(dice.randrange(6000))
            connection.execute("insert into written values(?, ?)", (number, padding))
            acknowledged = number + 1
    except apsw.Error:
        pass
    after = folder / f"after{seed}"
    disk.lose_power(after, dice)
    with suppress(apsw.Error):  # it would checkpoint, but the machine is off
        connection.close()
    with_power = apsw.Connection(str(after / path.name))
    try:
        count = with_power.execute("select count(*) from written").get
        return acknowledged, count, with_power.pragma("integrity_check")
    except apsw.Error as error:
        return acknowledged, 0, str(error)
    finally:
        with_power.close()


def test_full_sync_loses_nothing_acknowledged(tmp_path: Path) -> None:
    for seed in range(60):
        acknowledged, count, health = rows_after_loss(tmp_path, "full", seed)
        assert count >= acknowledged, seed
        assert health == "ok", seed


@pytest.mark.parametrize("synchronous", ["normal", "off"])
def test_a_weaker_setting_is_caught(tmp_path: Path, synchronous: str) -> None:
    """The control: a disk that never lost anything would prove nothing."""
    outcomes = [rows_after_loss(tmp_path, synchronous, seed) for seed in range(60)]
    assert any(count < acknowledged for acknowledged, count, _ in outcomes)


def test_without_any_sync_even_the_file_breaks(tmp_path: Path) -> None:
    outcomes = [rows_after_loss(tmp_path, "off", seed) for seed in range(60)]
    assert any(health != "ok" for _, _, health in outcomes)
