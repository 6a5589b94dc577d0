"""How large a run may be just now: half after memory ran out, more again while it does not."""

PATIENCE = 32
"""Runs that must go well before one may be twice as large again."""


class Room:
    """Padded tokens a run. Used by one event loop."""

    def __init__(self, most: int, *, least: int) -> None:
        self._most, self._least = most, least
        self.tokens = most
        self._well = 0

    def ran_out(self) -> None:
        """Memory did not suffice."""
        self.tokens = max(self._least, self.tokens // 2)
        self._well = 0

    def went_well(self) -> None:
        """It sufficed."""
        self._well += 1
        if self.tokens < self._most and self._well >= PATIENCE:
            self.tokens = min(self._most, self.tokens * 2)
            self._well = 0
