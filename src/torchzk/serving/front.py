"""The eight calls of cuzk.v1, answered by an engine.

Calls wait in an event loop, so that thousands may; what can block runs in threads. Requests are
read as bytes, a few at once, and let go of before their proof is waited for: a unary call is one
message of a stream, which is the same on the wire.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from torchzk.errors import DrainingError, ExpiredError, InputError
from torchzk.serving import replies
from torchzk.serving.circuit_ids import circuit_name
from torchzk.serving.engine import Accepted, Engine, JobReport
from torchzk.serving.requests import parse, proof_request
from torchzk.serving.serve_config import LimitConfig
from torchzk.serving.status_codes import status_of
from torchzk.serving.wire import proving_pb2 as wire
from torchzk.serving.wire_scan import check_fields

SERVICE = wire.DESCRIPTOR.services_by_name["ProvingEngine"].full_name

_FOREVER = 10 * 365 * 86400.0
_SMALL = 1 << 16
"""Bytes of a message that carries no proof: 64 times the longest id."""

_Context = grpc.aio.ServicerContext[Any, Any]
_T = TypeVar("_T")
_Message = TypeVar("_Message", bound=Message)


class Front:
    """Answers calls. Lives in one event loop."""

    def __init__(
        self,
        engine: Engine,
        limits: LimitConfig,
        report: Callable[[str], None],
    ) -> None:
        """
        Args:
            engine: Has the jobs.
            limits: Of the config.
            report: Told of faults of ours, with their traceback.
        """
        self._engine, self._limits = engine, limits
        self._report = report
        self._uploads = asyncio.Semaphore(limits.uploads)
        # keys load for minutes: who asks for status or cancels must not wait behind them
        self._submitting = ThreadPoolExecutor(limits.uploads, "submit")
        self._loading = ThreadPoolExecutor(4, "keys")
        self._asking = ThreadPoolExecutor(4, "ask")
        self._waiting: set[asyncio.Future[JobReport]] = set()
        self._stopped = False

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server is given to serve."""
        calls: dict[str, Callable[[_Context], Awaitable[Message]]] = {
            "SubmitProof": self._submit_proof,
            "AwaitProof": self._await_proof,
            "Prove": self._prove,
            "CancelProof": self._cancel_proof,
            "GetStatus": self._get_status,
            "GetMetrics": self._get_metrics,
            "PreloadSRS": self._preload,
            "EvictSRS": self._evict,
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.stream_unary_rpc_method_handler(partial(self._answer, name, call))
                for name, call in calls.items()
            },
        )

    def stop(self) -> None:
        """End all waiting; the jobs are not touched."""
        self._stopped = True
        for future in self._waiting:
            if not future.done():
                future.set_exception(_stopping())
        for pool in (self._submitting, self._loading, self._asking):
            pool.shutdown(wait=False)

    async def _answer(
        self,
        name: str,
        call: Callable[[_Context], Awaitable[Message]],
        _: object,
        context: _Context,
    ) -> bytes:
        """One call, from its bytes to the reply's; whatever it raises becomes a status."""
        try:
            return (await call(context)).SerializeToString()
        except Exception as e:
            code, details = status_of(e)
            if code is grpc.StatusCode.INTERNAL:
                self._report(f"{name}: {''.join(traceback.format_exception(e))}")
            self._engine.refused(name, code.name)
            return bytes(await context.abort(code, details))

    async def _submit_proof(self, context: _Context) -> Message:
        return replies.accepted(await self._accept(context, _submitted, 0))

    async def _prove(self, context: _Context) -> Message:
        accepted = await self._accept(context, _wrapped, 1)
        job = await self._ended(accepted.job_id, _FOREVER)
        return wire.ProveResponse(result=replies.result(job))

    async def _await_proof(self, context: _Context) -> Message:
        said = await self._small(context, wire.AwaitProofRequest)
        seconds = said.timeout_ms / 1000 if said.timeout_ms else _FOREVER
        return replies.result(await self._ended(said.job_id, min(seconds, _FOREVER)))

    async def _cancel_proof(self, context: _Context) -> Message:
        said = await self._small(context, wire.CancelProofRequest)
        running = await _in(self._asking, self._engine.cancel, said.job_id)
        return wire.CancelProofResponse(was_running=running)

    async def _get_status(self, context: _Context) -> Message:
        await self._small(context, wire.GetStatusRequest)
        return replies.status(await _in(self._asking, self._engine.status))

    async def _get_metrics(self, context: _Context) -> Message:
        await self._small(context, wire.GetMetricsRequest)
        text = await _in(self._asking, self._engine.metrics)
        return wire.GetMetricsResponse(prometheus_text=text)

    async def _preload(self, context: _Context) -> Message:
        said = await self._small(context, wire.PreloadSrsRequest)
        name = circuit_name(said.circuit_id)
        return replies.preloaded(await _in(self._loading, self._engine.preload, name))

    async def _evict(self, context: _Context) -> Message:
        said = await self._small(context, wire.EvictSrsRequest)
        name = circuit_name(said.circuit_id)
        return replies.evicted(await _in(self._asking, self._engine.evict, name))

    async def _accept(
        self, context: _Context, read: Callable[[bytes], wire.SubmitProofRequest], depth: int
    ) -> Accepted:
        """Have a request accepted. When this returns, nothing here holds its bytes any more."""
        async with self._uploads:
            raw = await self._read(context)
            return await _in(self._submitting, self._submit, raw, read, depth)

    def _submit(
        self, raw: bytes, read: Callable[[bytes], wire.SubmitProofRequest], depth: int
    ) -> Accepted:
        check_fields(raw, "request", depth=depth)
        return self._engine.submit(proof_request(read(raw)))

    async def _small(self, context: _Context, cls: type[_Message]) -> _Message:
        raw = await self._read(context)
        if len(raw) > _SMALL:
            raise InputError(f"{len(raw)} bytes are too many for a {cls.DESCRIPTOR.name}")
        return parse(cls, raw)

    async def _read(self, context: _Context) -> bytes:
        """The call's one message, as bytes."""
        try:
            async with asyncio.timeout(self._limits.upload_time):
                raw = await context.read()
        except TimeoutError as e:
            raise ExpiredError(
                f"the request did not arrive in {self._limits.upload_time:g} s"
            ) from e
        if raw is grpc.aio.EOF:
            raise InputError("the call ended before its message")
        return bytes(raw)

    async def _ended(self, job_id: str, seconds: float) -> JobReport:
        """A job at its end, or where it is after some time."""
        if self._stopped:
            raise _stopping()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[JobReport] = loop.create_future()

        def ended(job: JobReport) -> None:
            # the loop is closed when the service stopped in between
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, job)

        self._waiting.add(future)
        watching = loop.run_in_executor(self._asking, self._engine.watch, job_id, ended)
        try:
            # whoever leaves while the watch begins must not leave it behind
            await asyncio.shield(watching)
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return await _in(self._asking, self._engine.job, job_id)
        finally:
            self._waiting.discard(future)
            watching.add_done_callback(_unwatch)


def _unwatch(watching: asyncio.Future[Callable[[], None]]) -> None:
    if not watching.cancelled() and watching.exception() is None:
        watching.result()()


def _settle(future: asyncio.Future[JobReport], job: JobReport) -> None:
    if not future.done():
        future.set_result(job)


async def _in(pool: Executor, call: Callable[..., _T], *arguments: Any) -> _T:
    """What `call` returns, called by a thread of `pool`."""
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, call, *arguments)
    except RuntimeError as e:
        if "shutdown" in str(e):
            raise _stopping() from e
        raise


def _submitted(raw: bytes) -> wire.SubmitProofRequest:
    return parse(wire.SubmitProofRequest, raw)


def _wrapped(raw: bytes) -> wire.SubmitProofRequest:
    said = parse(wire.ProveRequest, raw)
    if not said.HasField("submit"):
        raise InputError("submit: is missing")
    return said.submit


def _stopping() -> DrainingError:
    return DrainingError(
        "the service stops; a job that was accepted goes on when it starts again, so ask again"
    )


def method_names() -> Iterable[str]:
    """The calls, in the order of the contract."""
    return [m.name for m in wire.DESCRIPTOR.services_by_name["ProvingEngine"].methods]
