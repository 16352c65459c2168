"""What Prometheus is told."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Of one server. Labels are made of routes and models alone, never of what a request says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name, registry = "glauber", self.registry
        self.requests = Counter(f"{name}_requests", "Answers.", ("route", "status"), registry=registry)
        self.seconds = Histogram(
            f"{name}_request_seconds", "From request to answer.", ("route",), buckets=SECONDS, registry=registry
        )
        self.rows = Histogram(f"{name}_chain_rows", "Rows that share a chain.", ("model",), buckets=ROWS, registry=registry)
        self.calls = Counter(f"{name}_network_calls", "Of a request's row, in the mean.", ("model",), registry=registry)
        self.waiting = Gauge(f"{name}_waiting", "Requests that wait for a model.", ("model",), registry=registry)
        self.hung_up = Counter(f"{name}_hung_up", "Requests whose client went away.", registry=registry)
