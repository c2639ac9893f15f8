"""Tables of a device may be given back by any thread, beside a worker that proves with them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from scheduler.small_proofs import small_site
from torchzk import api
from torchzk.groth16 import products
from torchzk.groth16.products import block_matrices
from torchzk.groth16.query_variables import query_variables


def test_a_proof_goes_on_while_others_give_back_what_it_uses(
    tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = small_site(tmp_path, device)
    session, read = site.session, []

    def forgetting(*tensors: torch.Tensor) -> None:
        """Between the moment a worker has got matrices and that in which it launches."""
        other = threading.Thread(target=session.forget)
        other.start()
        other.join()
        assert len(block_matrices) == 0 and len(query_variables) == 0
        read.append(len(tensors))

    monkeypatch.setattr(products, "used_here", forgetting)
    with site.keys:
        (outcome,) = api.prove_many([site], {"job": {"seeds": [1, 2]}})
    assert outcome.error is None and outcome.result is not None
    assert len(outcome.result.proof) == 2 * 192
    # all tensors of A, B and C, of two blocks, thrice a partition at least
    assert set(read) == {4} and len(read) >= 2 * 2 * 3
