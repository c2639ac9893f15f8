"""The known-answer test: passes what is right, sees what is wrong, and decides."""

from __future__ import annotations

import logging

import pytest
import torch
from triton.runtime.interpreter import InterpretedFunction

from torchzk.errors import ResourceError
from torchzk.params.fields import FR
from torchzk.triton_kernels import elementwise, variants
from torchzk.triton_kernels.code import FieldCode, Variant, field_code
from triton_kernels.lanes import INTERPRETED


@pytest.fixture(autouse=True)
def undecided() -> None:
    variants.choose.cache_clear()


@pytest.mark.parametrize("name", ["ptx", "plain"])
def test_right_kernels_pass(device: torch.device, name: Variant) -> None:
    assert variants.mistakes(device, name) == ()


def test_kernels_are_what_this_lane_says() -> None:
    assert isinstance(elementwise.binary_kernel, InterpretedFunction) == INTERPRETED


def test_choice_of_this_device(device: torch.device) -> None:
    choice = variants.choose(device)
    assert choice.variant == ("plain" if INTERPRETED else "ptx")
    assert choice.wrong == ()
    assert choice.device in str(choice)


def test_a_lost_carry_is_seen(device: torch.device) -> None:
    lost = FieldCode(FR, 1, "ptx")
    # what ptxas would make of it if it dropped one carry
    at = lost.add.index("addc.cc")
    object.__setattr__(lost, "add", lost.add[:at] + "add.cc" + lost.add[at + 7 :])
    # so that no compiled kernel of the right text can take its place
    assert lost != field_code(FR, 1, "ptx") and repr(lost) != repr(field_code(FR, 1, "ptx"))
    assert variants._prime_mistakes(FR, device, lost) == [f"{FR.name} add"]


class TestDecision:
    """With a GPU that computes as told."""

    @pytest.fixture(autouse=True)
    def gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "H1000")

    def test_plain_runs_where_ptx_is_wrong(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        wrong = {"ptx": ("fr mul",), "plain": ()}
        monkeypatch.setattr(variants, "mistakes", lambda device, name: wrong[name])
        with caplog.at_level(logging.WARNING):
            choice = variants.choose(torch.device("cuda", 7))
        assert choice.variant == "plain" and choice.wrong == ("fr mul",)
        assert "PTX is wrong in fr mul" in caplog.text

    def test_a_device_that_is_always_wrong_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(variants, "mistakes", lambda device, name: (f"{name} mul",))
        with pytest.raises(ResourceError, match="H1000.*ptx mul.*ptxas"):
            variants.choose(torch.device("cuda", 7))
