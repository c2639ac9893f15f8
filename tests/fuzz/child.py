"""One process of fuzzing, which `fuzz.run` starts: atheris lets a process fuzz once."""

from __future__ import annotations

import hashlib
import resource
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path
from random import Random

import atheris

# before anything of the package is imported; kernels' arithmetic has branches of its own enough
with atheris.instrument_imports(
    include=["torchzk"], exclude=["torchzk.ops", "torchzk.params", "torchzk.triton_kernels"]
):
    from fuzz.catalogue import TARGETS
    from fuzz.target import Read, Target, fault_of, takes_too_much

WARM = 2000
"""Runs in which caches fill, so that memory is not looked at."""


class Fuzzed:
    """A reader under test, and what was found wrong with it, each once."""

    def __init__(self, target: Target, read: Read, finds: Path) -> None:
        self._target, self._read, self._finds = target, read, finds
        self._known: dict[str, int] = {}
        self._runs, self._peak = 0, 0

    def __call__(self, data: bytes) -> None:
        self._runs += 1
        fault = fault_of(self._target, self._read, data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        grown, self._peak = peak - self._peak, max(peak, self._peak)
        if (
            fault is None
            and grown > self._target.spare
            and self._runs > WARM
            and takes_too_much(self._target, self._read, data)
        ):
            fault = "too much memory"
        if fault is not None and len(data) < self._known.get(fault, 1 << 62):
            self._keep(fault, data)

    def mutate(self, data: bytes, most: int, seed: int) -> bytes:
        def plain(raw: bytes) -> bytes:
            return bytes(atheris.Mutate(raw, max(1, min(most, 2 * len(raw) + 64))))

        assert self._target.mutate is not None
        return self._target.mutate(data, Random(seed), plain)[:most]

    def _keep(self, fault: str, data: bytes) -> None:
        """Write a find, or a shorter input that does the same."""
        if fault not in self._known:
            print(f"FIND {fault}", file=sys.stderr, flush=True)
        self._known[fault] = len(data)
        stem = hashlib.sha256(fault.encode()).hexdigest()[:8]
        (self._finds / f"{self._target.name}-{stem}").write_bytes(data)
        note = self._finds / f"{self._target.name}-{stem}.txt"
        if not note.exists():
            try:
                self._read(data)
                trace = ""
            except BaseException as e:
                trace = "".join(traceback.format_exception(e))
            note.write_text(f"{fault}\n\n{trace}", "utf-8", "backslashreplace")


def main(name: str, folder: Path, options: list[str]) -> None:
    """Fuzz until libFuzzer ends the process."""
    target = TARGETS[name]
    corpus, finds = folder / "corpus" / name, folder / "finds"
    for path in (corpus, finds):
        path.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        if len(seed) <= target.longest:
            (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    words = folder / f"{name}.dict"
    quoted = ("".join(f"\\x{b:02x}" for b in token) for token in target.tokens)
    words.write_text("".join(f'"{token}"\n' for token in quoted))
    shm = Path("/dev/shm")
    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None)
        read = stack.enter_context(target.open(Path(stack.enter_context(place))))
        fuzzed = Fuzzed(target, read, finds)
        arguments = [
            *(sys.argv[0], str(corpus), f"-max_len={target.longest}", "-timeout=20"),
            # atheris keeps what comparisons of arrays return: 3 GiB in ten minutes of C1 outputs
            *("-rss_limit_mb=6144", "-print_final_stats=1", f"-artifact_prefix={finds}/{name}-"),
            *((f"-dict={words}",) if target.tokens else ()),
            *options,
        ]
        mutator = fuzzed.mutate if target.mutate is not None else None
        atheris.Setup(arguments, fuzzed, custom_mutator=mutator)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
