"""Backends keep to the protocol, and the one that runs is the one that is asked for."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest
import torch

from child_environment import run_python
from torchzk import backends
from torchzk.backends import Backend, BackendName, choose_backend, load_backend, variant_on
from torchzk.errors import ConfigError, ResourceError
from triton_kernels.lanes import INTERPRETED

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
OPERATIONS = [name for name in vars(Backend) if not name.startswith("_")]


@pytest.fixture(params=get_args(BackendName))
def name(request: pytest.FixtureRequest) -> BackendName:
    if request.param == "triton":
        pytest.importorskip("triton", reason="Triton is not installed")
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_backend_takes_the_arguments_of_the_protocol(
    name: BackendName, operation: str
) -> None:
    _, *promised = inspect.signature(getattr(Backend, operation)).parameters.values()
    taken = inspect.signature(getattr(load_backend(name), operation)).parameters.values()
    assert [(p.name, p.kind) for p in taken] == [(p.name, p.kind) for p in promised]
    # what may be left out may be left out everywhere
    optional, default = (
        {p.name for p in side if p.default is not p.empty} for side in (promised, taken)
    )
    assert optional == default


def test_the_protocol_is_not_empty() -> None:
    assert {"msm", "quotient", "spmv", "sha256", "poseidon"} <= set(OPERATIONS)


def test_only_who_asks_for_triton_imports_it() -> None:
    code = (
        "import sys\n"
        # whoever imports it gets an ImportError
        "sys.modules['triton'] = None\n"
        "import torch\n"
        "from torchzk import api\n"
        "from torchzk.backends import choose_backend, load_backend, variant_on\n"
        "from torchzk.errors import ConfigError\n"
        "from torchzk.scheduler.known_answers import known_answers\n"
        "cpu, cuda = torch.device('cpu'), torch.device('cuda')\n"
        "chosen = choose_backend('auto', cpu)\n"
        "assert (chosen.name, chosen.advice) == ('torch', ''), chosen\n"
        "assert all(a.right for a in known_answers(load_backend('torch'), cpu))\n"
        "assert variant_on('torch', cpu) is None\n"
        "assert 'torchzk.triton_kernels' not in sys.modules\n"
        "chosen = choose_backend('auto', cuda)\n"
        "assert chosen.name == 'torch', chosen\n"
        "assert 'pip install' in chosen.advice, chosen\n"
        "for ask in (lambda: load_backend('triton'), lambda: choose_backend('triton', cuda)):\n"
        "    try:\n"
        "        ask()\n"
        "    except ConfigError as e:\n"
        "        assert e.exit_code == 2 and \"pip install 'torchzk[triton]'\" in str(e), e\n"
        "    else:\n"
        "        raise AssertionError('not refused')\n"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


class TestWithTriton:
    """Where Triton is installed; whether there is a device is made up."""

    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("triton", reason="Triton is not installed")

    @pytest.mark.skipif(INTERPRETED, reason="Triton interprets its kernels on the CPU")
    def test_the_cpu_is_refused(self) -> None:
        with pytest.raises(ResourceError, match="needs a CUDA device, got cpu"):
            choose_backend("triton", CPU)
        with pytest.raises(ResourceError, match="needs a CUDA device, got cpu"):
            variant_on("triton", CPU)

    def test_auto_takes_triton_on_cuda_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backends, "_triton_fault", lambda device: None)
        chosen = choose_backend("auto", CUDA)
        assert (chosen.name, chosen.advice) == ("triton", "")
        assert str(chosen) == "triton (auto: the device is cuda:0)"
        assert str(choose_backend("auto", CPU)) == "torch (auto: the device is cpu)"
        assert str(choose_backend("triton", CUDA)) == "triton"
        assert str(choose_backend("torch", CUDA)) == "torch"

    def test_a_cache_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Driver:
            @property
            def active(self) -> None:
                raise PermissionError(13, "Permission denied", "/root/.triton/cache")

        monkeypatch.setattr("triton.runtime.driver", Driver())
        with pytest.raises(ConfigError, match=r"denied: '/root/.*or set TRITON_CACHE_DIR"):
            choose_backend("triton", CUDA)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="Triton finds a device")
    def test_a_driver_that_does_not_start_is_no_traceback(self) -> None:
        """As with no compiler; here, because Triton finds no device at all."""
        with pytest.raises(ConfigError, match=r"does not start \(0 active.*install a C compiler"):
            choose_backend("triton", CUDA)
        chosen = choose_backend("auto", CUDA)
        assert chosen.name == "torch"
        assert "auto: Triton does not run" in str(chosen) and "does not start" in chosen.advice
