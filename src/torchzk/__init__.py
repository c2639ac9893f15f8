"""Groth16 proofs of Filecoin storage, written as PyTorch tensors.

Importing this package imports nothing heavy; `torchzk.api` is the place to start.
"""

__version__ = "0.1.0"
