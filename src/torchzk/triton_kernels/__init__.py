"""The reference operations of `torchzk.ops` as Triton kernels: same names, same bits, fast.

Importing this package needs Triton; a device is asked for when an operation is called.
"""
