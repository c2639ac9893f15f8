"""Keys in a budget: shared, counted, let go in the order of their use, never while in use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from torchzk.errors import KeyFileError, ResourceError
from torchzk.scheduler.key_manager import KeyManager

GIB = 1 << 30


class Loads:
    """Keys by name, and which of them were loaded, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def of(self, name: str) -> Callable[[], str]:
        def load() -> str:
            self.done.append(name)
            return f"key {name}"

        return load


def test_a_key_is_loaded_once_and_stays() -> None:
    manager, loads = KeyManager(10), Loads()
    for _ in range(3):
        with manager.use("a", 4, loads.of("a")) as key:
            assert key == "key a"
            with manager.use("a", 4, loads.of("a")) as same:
                assert same is key
    assert loads.done == ["a"] and manager.held_bytes == 4
    assert manager.holds("a") and not manager.holds("b")


def test_the_least_recently_used_goes_first() -> None:
    manager, loads = KeyManager(10), Loads()
    for name in ("a", "b", "a"):
        with manager.use(name, 4, loads.of(name)):
            pass
    with manager.use("c", 4, loads.of("c")):
        assert [manager.holds(name) for name in "abc"] == [True, False, True]
    # no more go than must
    with manager.use("d", 2, loads.of("d")):
        assert manager.held_bytes == 10
    assert loads.done == ["a", "b", "c", "d"]


def test_keys_in_use_stay_and_the_refusal_says_which() -> None:
    manager, loads = KeyManager(10 * GIB), Loads()
    with ExitStack() as stack:
        stack.enter_context(manager.use("a", 4 * GIB, loads.of("a"), "window-32GiB"))
        with manager.use("b", 4 * GIB, loads.of("b")):
            pass
        why = r"porep takes 7.00 GiB; .* 10.00 GiB together, and in use are: window-32GiB 4.00 GiB"
        with pytest.raises(ResourceError, match=why):
            stack.enter_context(manager.use("c", 7 * GIB, loads.of("c"), "porep"))
        # whoever is refused drives nobody out
        assert manager.holds("b") and not manager.holds("c")
        stack.enter_context(manager.use("d", 6 * GIB, loads.of("d")))
        assert manager.holds("a") and not manager.holds("b")
    with manager.use("c", 7 * GIB, loads.of("c")):
        assert not manager.holds("a") and not manager.holds("d")
    with pytest.raises(ResourceError, match="takes 11.00 GiB.*: none"):
        stack.enter_context(manager.use("e", 11 * GIB, loads.of("e")))
    assert loads.done == ["a", "b", "d", "c"]


def test_a_key_that_cannot_be_had_leaves_nothing() -> None:
    manager, loads = KeyManager(4), Loads()

    def fail() -> str:
        raise KeyFileError("torn")

    refused = pytest.raises(KeyFileError, match="torn")
    with refused, manager.use("a", 4, fail):
        raise AssertionError
    assert manager.held_bytes == 0
    with manager.use("a", 4, loads.of("a")) as key:
        assert key == "key a"


def test_a_fault_of_the_user_counts_down() -> None:
    manager, loads = KeyManager(4), Loads()
    with pytest.raises(ZeroDivisionError), manager.use("a", 4, loads.of("a")):
        raise ZeroDivisionError
    assert manager.drop_unused() == 4
    assert manager.held_bytes == 0 and manager.drop_unused() == 0
    with manager.use("b", 4, loads.of("b")):
        assert manager.drop_unused() == 0


def test_many_threads_load_a_key_once_and_others_meanwhile() -> None:
    manager, loads = KeyManager(10), Loads()
    begun, go = threading.Event(), threading.Event()
    got: list[str] = []

    def slow() -> str:
        begun.set()
        assert go.wait(10)
        return loads.of("a")()

    def use() -> None:
        with manager.use("a", 4, slow) as key:
            got.append(key)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    # another key can be had while that one is on its way, and its bytes are counted already
    with manager.use("b", 4, loads.of("b")), pytest.raises(ResourceError):
        manager.use("c", 4, loads.of("c")).__enter__()
    go.set()
    for thread in threads:
        thread.join(10)
    assert got == ["key a"] * 4 and loads.done == ["b", "a"]


def test_who_waited_for_a_key_that_failed_tries_again() -> None:
    manager, loads = KeyManager(4), Loads()
    begun, go = threading.Event(), threading.Event()
    ends: list[str] = []

    def fail() -> str:
        begun.set()
        assert go.wait(10)
        raise KeyFileError("torn")

    def use(load: Callable[[], str]) -> None:
        try:
            with manager.use("a", 4, load) as key:
                ends.append(key)
        except KeyFileError as e:
            ends.append(str(e))

    threads = [threading.Thread(target=use, args=(load,)) for load in (fail, loads.of("a"))]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(10)
    assert sorted(ends) == ["key a", "torn"]
