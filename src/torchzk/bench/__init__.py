"""Benchmarks whose inputs are data: `python -m torchzk.bench`. Every result is checked."""
