"""What the stages of a run have in common: the circuit, where it runs, and who watches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchzk.backends import (
    Backend,
    BackendChoice,
    KernelVariant,
    choose_backend,
    load_backend,
    variant_on,
)
from torchzk.circuits.registry import Circuit, get_circuit
from torchzk.config import Config
from torchzk.scheduler.devices import find_device
from torchzk.timeline import Timeline


@dataclass(frozen=True)
class Session:
    """A config made real. Holds no state of its own: jobs and keys are passed beside it."""

    config: Config
    circuit: Circuit
    backend: Backend
    device: torch.device
    timeline: Timeline
    choice: BackendChoice
    """Which backend that is, and why."""

    def variant(self) -> KernelVariant | None:
        """The variant of the backend's kernels here, checked by known answers; None for torch's.

        The first call for a device takes seconds. Raises `ResourceError` as `variant_on` does.
        """
        return variant_on(self.choice.name, self.device)


def open_session(config: Config, timeline: Timeline) -> Session:
    """Find the circuit, the device and the backend that a config names.

    Raises:
        ConfigError: There is no such circuit, or the backend is not installed.
        ResourceError: The device is not there, or not one for the backend.
    """
    device = find_device(config.device)
    choice = choose_backend(config.backend, device)
    if device.type == "cpu":
        # the reference works on pieces of a batch that fit the cache; on so little work the
        # barriers of torch's own threads cost more than the second core brings
        torch.set_num_threads(1)
    circuit = get_circuit(config.circuit.kind, config.circuit.sector_size)
    return Session(config, circuit, load_backend(choice.name), device, timeline, choice)
