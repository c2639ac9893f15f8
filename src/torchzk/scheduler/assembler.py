"""The partitions of one job: handed out, given back, and put together in order, each once."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from types import MappingProxyType

from torchzk.errors import ProtocolError


class Assembler:
    """Where each partition of a job is: waiting, in flight, or here. Not locked."""

    def __init__(
        self, n_partitions: int, proven: Mapping[int, bytes] = MappingProxyType({})
    ) -> None:
        """Args: proven: Pieces that are here from the start."""
        if n_partitions < 1:
            raise ProtocolError(f"a job of {n_partitions} partitions has nothing to prove")
        self._waiting = [i for i in range(n_partitions) if i not in proven]
        heapify(self._waiting)
        self._in_flight: set[int] = set()
        self._pieces = [proven.get(i) for i in range(n_partitions)]

    @property
    def waiting(self) -> int:
        """Partitions that nobody works on."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Partitions that somebody works on."""
        return len(self._in_flight)

    @property
    def complete(self) -> bool:
        """Whether all of them are here."""
        return not self._waiting and not self._in_flight

    def take(self) -> int:
        """The lowest partition that waits; somebody works on it now."""
        if not self._waiting:
            raise ProtocolError("no partition waits")
        index = heappop(self._waiting)
        self._in_flight.add(index)
        return index

    def give_back(self, index: int) -> None:
        """Nobody works on a partition any more: it waits again."""
        self._leave(index)
        heappush(self._waiting, index)

    def put(self, index: int, piece: bytes) -> None:
        """A partition is proved."""
        self._leave(index)
        self._pieces[index] = piece

    def pieces(self) -> list[bytes]:
        """The pieces of all partitions, in order."""
        if not self.complete:
            missing = [i for i, piece in enumerate(self._pieces) if piece is None]
            raise ProtocolError(f"partitions {missing} are missing")
        return [piece for piece in self._pieces if piece is not None]

    def _leave(self, index: int) -> None:
        if index not in self._in_flight:
            raise ProtocolError(f"nobody works on partition {index}")
        self._in_flight.remove(index)
