"""What a refusal must look like: a ValueError with one plain sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(about: str | None = None) -> Iterator[pytest.ExceptionInfo[ValueError]]:
    """The block raises ValueError; its message is one sentence on one line and matches `about`."""
    with pytest.raises(ValueError, match=about) as caught:
        yield caught
    message = str(caught.value)
    assert "\n" not in message, f"more than one line: {message!r}"
    assert len(message.split()) >= 4, f"not a sentence: {message!r}"
    assert not re.search(r"[.!?]\s+[A-Z(]", message), f"more than one sentence: {message!r}"
