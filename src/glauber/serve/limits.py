"""How much one request, and all of them together, may ask for."""

BODY = 4 * 2**20
"""Bytes of a request."""
HEADERS = 2**14
"""Bytes of its head."""
SLOW = 10.0
"""Seconds within which a request has to arrive, and each piece of an answer has to be taken."""
CONNECTIONS = 512
"""Open at once; beyond that those that wait longest for a request are closed."""
DEADLINE = 120.0
"""Seconds from when a request is taken to its answer."""
PATIENCE = 60.0
"""Seconds that it waits for its turn."""
PING = 5.0
"""Seconds without an event after which a stream shows that it is alive."""
WAITING = 32
"""Requests that wait for a model; those that share the chain that runs are not counted."""
COMPANY = 0.01
"""Seconds that a request waits for others to share its chain, where nothing else is to be done."""
ROWS = 64
"""Of one chain that requests share."""
DRAWS = 256
"""Rows of a chain that one request has for itself."""

NUM = 16
"""Results of a request."""
TEXT = 2**16
"""Characters."""
TOKENS = 2**14
"""Of a row that is given as tokens."""
SWEEPS = 64
SITES = 2**14
"""Of a block, and of an order that is given by its sites."""
CALLS = 2**14
"""Network calls: of one sample, and of all rows of a request together."""
STATES = 1024
"""Events of a stream."""
PIXELS = 2**20
"""Of a picture that is sent."""
LAW = 10
"""Tokens of a law that are told."""
