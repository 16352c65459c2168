"""Samplers on laws whose conditionals are exact: what a sampler gets wrong is then its own doing, and not a network's."""

from glauber.bench.oracle.run import bench_oracle

__all__ = ["bench_oracle"]
