"""A signal asks work to stop; only one that comes much later ends the program."""

import math
import signal

import pytest

from glauber.runtime import signals
from glauber.runtime.signals import PATIENCE, stop_requests

STOPS = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_is_noted_and_the_handlers_come_back(number):
    before = [signal.getsignal(each) for each in STOPS]
    with stop_requests(PATIENCE) as stopped:
        assert not stopped
        signal.raise_signal(number)
        signal.raise_signal(number)  # as `timeout` and terminals do
        assert stopped == [number] * 2
    assert [signal.getsignal(each) for each in STOPS] == before


@pytest.mark.parametrize(("patience", "ends"), [(PATIENCE, True), (math.inf, False)])
def test_a_signal_that_comes_late_ends_the_program_unless_others_are_waited_for(patience, ends, monkeypatch):
    clock = iter([0.0, 0.0, PATIENCE + 1, PATIENCE + 1])
    monkeypatch.setattr(signals.time, "monotonic", lambda: next(clock))
    sent = []
    monkeypatch.setattr(signals.os, "kill", lambda process, number: sent.append(number))
    with stop_requests(patience):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert sent == [signal.SIGTERM] * ends
