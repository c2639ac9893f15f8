"""Fuzz readers, guided by coverage: `python -m fuzz.run TARGET --seconds 600`, from `tests/`.

    pip install -e '.[test,fuzz]'
    cd tests && python -m fuzz.run --list
    cd tests && nice python -m fuzz.run c1_json vk --seconds 600

What is found lies in `.scratch/fuzz/finds`, an input and a note with its traceback for each fault,
the shortest that was met; the corpus beside it is taken up by the next run. A find that is mended
goes to `fuzz/finds/` as `TARGET-WORDS.xz`, where `test_finds.py` reads it again in every run of the
tests, without atheris.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
STATS = {
    "runs": r"stat::number_of_executed_units: *(\d+)",
    "a second": r"stat::average_exec_per_sec: *(\d+)",
    "coverage": r"(?s:.*) cov: (\d+)",
    "features": r"(?s:.*) ft: (\d+)",
}


def fuzz(name: str, folder: Path, seconds: int) -> str:
    """A line of what one target did."""
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "fuzz.child", name, str(folder), f"-max_total_time={seconds}"]
    with log.open("wb") as out:
        code = subprocess.run(command, cwd=TESTS, stdout=out, stderr=out).returncode
    text = log.read_text(errors="replace")
    found = {key: re.search(pattern, text) for key, pattern in STATS.items()}
    figures = ", ".join(f"{key} {match[1] if match else '?'}" for key, match in found.items())
    finds = sorted(set(re.findall(r"^FIND (.*)$", text, re.MULTILINE)))
    ending = "" if code == 0 else f", ENDED WITH {code}, see {log}"
    return "\n    ".join([f"{name}: {seconds} s, {figures}, finds {len(finds)}{ending}", *finds])


def main() -> None:
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=600, help="of each target")
    parser.add_argument("--folder", type=Path, default=TESTS.parent / ".scratch" / "fuzz")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    args = parser.parse_args()
    if args.list or not args.targets:
        from fuzz.catalogue import TARGETS

        print("\n".join(TARGETS))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.targets:
        print(fuzz(name, args.folder.resolve(), args.seconds), flush=True)


if __name__ == "__main__":
    main()
