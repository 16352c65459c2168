"""The thread in which a model works: requests wait in a bounded queue, and those with the same settings share a chain."""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glauber.codec import as_pictures, is_image_codec
from glauber.model import Model
from glauber.sampler import Sampler
from glauber.serve import limits
from glauber.serve.company import Abandoned, SharedChain, together
from glauber.serve.job import Busy, Job, TooLate, rows_of
from glauber.serve.metrics import Metrics
from glauber.tasks.template import token_texts

LOG = logging.getLogger("glauber.serve")
SAMPLERS = 64
"""That are kept: requests share a chain if they share the sampler."""


class Worker(threading.Thread):
    """Loads a model and works for it, as long as the process lives.

    Args:
        name: of the model.
        load: called in this thread.
    """

    def __init__(self, name: str, load: Callable[[], Model], metrics: Metrics):
        super().__init__(name=f"model {name}", daemon=True)
        self.model_name, self.load, self.metrics = name, load, metrics
        self.model: Model | None = None
        self.failure: BaseException | None = None
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.arrived = threading.Condition()
        self.ending = False
        self.samplers: OrderedDict[tuple[Any, ...], Sampler] = OrderedDict()
        self.pace = 1.0
        """Seconds for each request, in the mean of the last ones; those that share a chain share its time."""

    def queued(self) -> int:
        """How many requests wait."""
        return len(self.waiting)

    def submit(self, job: Job) -> None:
        """To be called in any thread. Refused if too many wait."""
        with self.arrived:
            self.waiting = deque(one for one in self.waiting if one.steps is not None or not one.cancelled)
            if len(self.waiting) >= limits.WAITING:
                raise Busy(max(1, round(self.pace * limits.WAITING / 2)))
            self.waiting.append(job)
            self.arrived.notify()

    def end(self, seconds: float) -> None:
        """Leave what runs and what waits; a thread that is at work when Python ends would abort it."""
        self.ending = True
        with self.arrived:
            for job in (*self.running, *self.waiting):
                job.cancel()
            self.arrived.notify()
        self.join(seconds)

    def run(self) -> None:
        """Work."""
        try:
            self.model = warm(self.load())
        except BaseException as error:
            self.failure = error
            return
        self.model.network.register_forward_pre_hook(self._leave_if_abandoned)
        while jobs := self._next():
            began = time.monotonic()
            self.running = jobs
            try:
                self._work(jobs)
            except Abandoned:
                pass
            except BaseException as error:
                for job in jobs:
                    self._fail(job, error)
            for job in jobs:
                if not job.over and job.ended:
                    self._fail(job, job.lateness)
            self.running = []
            self.pace = 0.8 * self.pace + 0.2 * (time.monotonic() - began) / len(jobs)

    def sampler(self, key: tuple[Any, ...], make: Callable[[], Sampler]) -> Sampler:
        """The same one for the same key."""
        if key not in self.samplers:
            self.samplers[key] = make()
            if len(self.samplers) > SAMPLERS:
                self.samplers.popitem(last=False)
        self.samplers.move_to_end(key)
        return self.samplers[key]

    def _next(self) -> list[Job]:
        """The job that waits longest, and those that can share its chain; none at the end."""
        while not self.ending:
            with self.arrived:
                if not self.waiting:
                    self.arrived.wait_for(lambda: bool(self.waiting) or self.ending)
                    self.arrived.wait_for(lambda: False, limits.COMPANY)  # which lets others in
                known = list(self.waiting)
            for job in known:  # which is work, too: meanwhile they count as waiting
                self._begin(job)
            with self.arrived:
                begun = [job for job in self.waiting if job.steps is not None and not job.over]
                taken = together(begun) if begun else []
                self.waiting = deque(job for job in self.waiting if not job.over and job not in taken)
                for job in taken:
                    job.turn = True
            if taken:
                return taken
        return []

    def _begin(self, job: Job) -> None:
        """Up to where it needs rows, if it has not begun."""
        assert self.model is not None
        if job.ended:
            self._fail(job, job.lateness)
        elif job.steps is None:
            try:
                job.steps = job.task(job, self.model)
                job.needs(next(job.steps))
            except StopIteration as done:
                self._finish(job, done.value)
            except BaseException as error:
                self._fail(job, error)

    def _work(self, jobs: list[Job]) -> None:
        draw = jobs[0].draw
        assert draw is not None
        self.metrics.rows.labels(self.model_name).observe(sum(rows_of(job.draw) for job in jobs if job.draw is not None))
        if jobs[0].key is not None:
            SharedChain(jobs, self._deliver, self._fail).run()
        elif draw.num == 0:
            self._deliver(jobs[0], torch.zeros(0, draw.sampler.length, dtype=torch.int64))
        else:
            samples = draw.sampler.draw(draw.num, draw.run)
            jobs[0].calls += samples.calls
            self._deliver(jobs[0], samples.tokens)

    def _deliver(self, job: Job, tokens: Tensor) -> None:
        """Its rows; then it is over, or waits for more."""
        assert job.steps is not None
        try:
            job.needs(job.steps.send(tokens))
        except StopIteration as done:
            self._finish(job, done.value)
        except Abandoned:
            raise
        except BaseException as error:
            self._fail(job, error)
        else:
            with self.arrived:
                self.waiting.append(job)

    def _finish(self, job: Job, answer: dict[str, Any]) -> None:
        self.metrics.calls.labels(self.model_name).inc(job.calls)
        job.end("done", answer)

    def _fail(self, job: Job, error: BaseException) -> None:
        if not isinstance(error, ValueError | TooLate | Busy):
            LOG.error("a request to %s has failed", self.model_name, exc_info=error)
        job.end("error", job.lateness if job.late else error)

    def _leave_if_abandoned(self, *_: Any) -> None:
        """Before each call of the network: whether anybody still waits for what it says."""
        if self.running and all(job.cancelled or job.late for job in self.running):
            raise Abandoned


def warm(model: Model) -> Model:
    """The same after its first use, which takes longest; what is missing for it is said at the start."""
    model.network.eval()
    if is_image_codec(model.codec):
        as_pictures(model.codec.decode(torch.zeros(1, model.process.length, dtype=torch.int64)))
    elif model.text_codec is not None:
        token_texts(model.text_codec)
    return model
