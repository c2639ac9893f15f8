"""Which gRPC status an error of ours becomes, as data."""

from __future__ import annotations

import grpc

from torchzk import errors

Code = grpc.StatusCode

STATUS_CODES: dict[type[errors.TorchzkError], grpc.StatusCode] = {
    errors.NotFoundError: Code.NOT_FOUND,
    errors.InputError: Code.INVALID_ARGUMENT,
    # for this service as it is configured, whoever asks and however often
    errors.ConfigError: Code.FAILED_PRECONDITION,
    errors.KeyFileError: Code.FAILED_PRECONDITION,
    # wait, and ask again
    errors.DrainingError: Code.UNAVAILABLE,
    errors.DeviceLostError: Code.UNAVAILABLE,
    errors.LockTimeoutError: Code.UNAVAILABLE,
    errors.StoreError: Code.UNAVAILABLE,
    errors.ResourceError: Code.RESOURCE_EXHAUSTED,
    errors.CancelledError: Code.CANCELLED,
    errors.ExpiredError: Code.DEADLINE_EXCEEDED,
    errors.NoProofError: Code.FAILED_PRECONDITION,
    errors.TorchzkError: Code.INTERNAL,
}
"""By class; of an error the row of the nearest class above it counts. QueueFullError is a
ResourceError, proofs that do not verify are faults of ours."""

ERRORS: dict[grpc.StatusCode, type[errors.TorchzkError]] = {
    Code.NOT_FOUND: errors.NotFoundError,
    Code.INVALID_ARGUMENT: errors.InputError,
    Code.FAILED_PRECONDITION: errors.ConfigError,
    Code.UNAUTHENTICATED: errors.ConfigError,
    Code.UNIMPLEMENTED: errors.ConfigError,
    Code.UNAVAILABLE: errors.ResourceError,
    Code.RESOURCE_EXHAUSTED: errors.ResourceError,
    Code.DEADLINE_EXCEEDED: errors.NoProofError,
    Code.CANCELLED: errors.NoProofError,
}
"""What a client of ours raises for a code."""

MAX_DETAILS = 2000
"""Characters of a message that go over the wire: headers have little room."""

OUR_FAULT = "a fault of the service, which its log shows; the request may be as good as any"


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Code and message for an error; those not raised on purpose tell nothing of the inside."""
    for cls in type(error).__mro__:
        if cls in STATUS_CODES:
            return STATUS_CODES[cls], str(error)[:MAX_DETAILS]
    return Code.INTERNAL, OUR_FAULT
