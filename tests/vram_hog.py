"""Another process on the GPU: takes all its memory but so much, or gives it back, as it is told.

    python tests/vram_hog.py DEVICE

A line on stdin is a number of bytes to leave free, or `free`; the answer, on stdout, is what is
free then.
"""

from __future__ import annotations

import sys

import torch


def main(device: torch.device) -> None:
    taken: list[torch.Tensor] = []
    torch.cuda.init()  # type: ignore[no-untyped-call]
    print("ready", flush=True)
    for line in sys.stdin:
        taken.clear()
        torch.cuda.empty_cache()
        if line.strip() != "free":
            _take(taken, int(line), device)
        print(torch.cuda.mem_get_info(device)[0], flush=True)


def _take(taken: list[torch.Tensor], leave: int, device: torch.device) -> None:
    """In pieces that halve, so that what is left is close to what was asked for."""
    piece = 8 << 30
    while piece >= 2 << 20:
        if torch.cuda.mem_get_info(device)[0] - leave < piece:
            piece //= 2
            continue
        try:
            taken.append(torch.empty(piece, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            piece //= 2


if __name__ == "__main__":
    main(torch.device(sys.argv[1]))
