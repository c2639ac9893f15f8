"""Threads between two queues: each takes a job, does one thing to it, and passes it on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from torchzk.scheduler.job_queue import JobQueue
from torchzk.scheduler.partition_run import forget_frames
from torchzk.scheduler.work import Job, JobState, Priority
from torchzk.timeline import Timeline


class End(Protocol):
    """Ends a job, with the monitor held."""

    def __call__(
        self, job: Job, error: BaseException | None = None, result: bytes | None = None
    ) -> None: ...


class Station:
    """One thing that is done to every job on the host.

    A job is taken only when there is a place for it in the next queue, so the most urgent one goes
    when a place is free, not the one that happens to wait for it.
    """

    def __init__(
        self,
        name: str,
        monitor: threading.Condition,
        source: JobQueue,
        target: JobQueue | None,
        handle: Callable[[Job], bytes | None],
        end: End,
        refuse: Callable[[], BaseException | None],
        n_threads: int,
        timeline: Timeline,
    ) -> None:
        """Args:
        monitor: The service's, reentrant.
        source: Where jobs come from.
        target: Where they go; None for the last station, whose `handle` gives the result.
        handle: What is done; its error is the job's.
        refuse: Why no job goes on, None as a rule.
        """
        self._name, self._monitor = name, monitor
        self._source, self._target = source, target
        self._handle, self._end, self._refuse = handle, end, refuse
        self._closed = False
        self._threads = [
            threading.Thread(
                target=self._run, args=(timeline.on_lane(lane),), name=lane, daemon=True
            )
            for lane in (f"{name} {k}" for k in range(n_threads))
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """No jobs come any more: threads that find none end."""
        with self._monitor:
            self._closed = True
            self._monitor.notify_all()

    def join(self) -> None:
        """Wait for the threads' end."""
        for thread in self._threads:
            thread.join()

    def _run(self, timeline: Timeline) -> None:
        while (job := self._next()) is not None:
            self._work_on(job, timeline)
            # a job's input must not outlive it in a variable of a thread that waits
            del job

    def _next(self) -> Job | None:
        with self._monitor:
            while (job := self._source.take(self._accept)) is None:
                if self._closed:
                    return None
                self._monitor.wait()
            if self._target is not None:
                self._target.reserve(job)
            if job.state is JobState.QUEUED:
                job.begin()
            # its place in the source is free
            self._monitor.notify_all()
            return job

    def _accept(self, priority: Priority) -> bool:
        return self._target is None or self._target.room(priority)

    def _work_on(self, job: Job, timeline: Timeline) -> None:
        result, error = None, None
        try:
            job.stop.check()
            with timeline.span(self._name):
                result = self._handle(job)
        except BaseException as e:
            forget_frames(e)
            error = e
        with self._monitor:
            if self._target is None:
                self._end(job, error, result)
                return
            # looked at with the monitor held: whoever stops the job later finds it in the queue
            error = error or job.stop.reason() or self._refuse()
            if error is None:
                self._target.put(job)
            else:
                self._target.give_up(job)
                self._end(job, error)
            self._monitor.notify_all()
