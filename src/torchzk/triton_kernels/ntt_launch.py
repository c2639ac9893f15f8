"""How kernels of `ntt_passes` are launched: over all lanes, or on halves beside each other."""

from __future__ import annotations

from typing import Any

import torch

from torchzk.params.fields import FR
from torchzk.triton_kernels import beside
from torchzk.triton_kernels.launch import launch, number_on, shape_on


def launch_pass(
    kernel: Any, n_lanes: int, device: torch.device, *args: Any, **constants: Any
) -> None:
    """Run a kernel of `ntt_passes` over lanes; constants as for `launch`."""
    launch(kernel, n_lanes, shape_on(device, "ntt pass", FR.n_limbs), device, *args, **constants)


class Halves:
    """The passes of a transform, each of them on both halves of the elements, if that is worth it.

    All passes but the last of `ntt.passes` leave the halves apart. While one half's pass begins or
    ends, and the card waits for memory, the other's pass computes. To be closed before tensors are
    let go of, whatever goes wrong.
    """

    def __init__(self, x: torch.Tensor, n_passes: int) -> None:
        """Of vectors `[8, *batch, n]` that take `n_passes`."""
        log_n = (x.numel() // 8 - 1).bit_length() if x.numel() else 0
        self._worth = n_passes > 1 and number_on(x.device, "ntt halves", FR.n_limbs, log_n) == 1
        self._device, self._top = x.device, n_passes - 1
        self._begun = self._forked = False

    def launch(
        self,
        index: int,
        kernel: Any,
        n_lanes: int,
        before: tuple[Any, ...],
        behind: tuple[Any, ...],
        *,
        whole: bool = False,
        **constants: Any,
    ) -> None:
        """Pass `index`; the first lane and their number go between the arguments.

        `whole` is of a pass that is to be one launch.
        """
        begun, self._begun = self._begun, True
        # the first is whole: to fork takes the host some time, while the card has nothing to do
        if whole or not (self._worth and begun) or index == self._top:
            self.close()
            launch_pass(kernel, n_lanes, self._device, *before, 0, n_lanes, *behind, **constants)
            return
        if not self._forked:
            beside.fork(self._device)
            self._forked = True
        # vectors have at least two blocks below the top: a half begins with one
        middle = n_lanes // 2
        with beside.beside(self._device):
            lanes = (middle, n_lanes - middle)
            launch_pass(kernel, lanes[1], self._device, *before, *lanes, *behind, **constants)
        launch_pass(kernel, middle, self._device, *before, 0, middle, *behind, **constants)

    def close(self) -> None:
        """From now on the current stream is behind both halves."""
        if self._forked:
            self._forked = False
            beside.join(self._device)
