"""Figures of speed, each beside what it is to be compared with, in one run."""

from glauber.bench.prepare import bench_prepare
from glauber.bench.sample import bench_sample
from glauber.bench.train import bench_train

__all__ = ["bench_prepare", "bench_sample", "bench_train"]
