"""Rewrites the allowances of spills: what is needed now is allowed.

    PYTHONPATH=src:tests python tests/triton_kernels/record_allowances.py [word of a case ...]

Words choose the cases that have one of them in their name; the others keep what they have. Without
words everything is compiled, slow cases too, which takes several minutes.
"""

from __future__ import annotations

import json
import sys

from triton_kernels import ahead_of_time
from triton_kernels.compile_pool import compiling


def record(words: list[str]) -> None:
    cases = ahead_of_time.CASES
    chosen = [name for name in cases if not words or any(word in name for word in words)]
    allowed = {
        name: limits
        for name, limits in ahead_of_time.allowances().items()
        if name in cases and name not in chosen
    }
    with compiling(chosen) as results:
        for (name, arch), future in results.items():
            needed = future.result()
            print(f"{name:44} sm_{arch:<4} {needed}", flush=True)
            if needed.stack:
                allowed.setdefault(name, {})[str(arch)] = list(needed[1:])
    # a line for each case, in the order of the cases
    lines = [f'"{name}": {json.dumps(allowed[name])}' for name in cases if name in allowed]
    ahead_of_time.ALLOWANCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record(sys.argv[1:])
