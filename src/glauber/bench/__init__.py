"""Figures of speed, each beside what it is to be compared with, in one run; and the paper's table."""

from glauber.bench.oracle import bench_oracle
from glauber.bench.prepare import bench_prepare
from glauber.bench.sample import bench_sample
from glauber.bench.table1 import bench_table1
from glauber.bench.train import bench_train

__all__ = ["bench_oracle", "bench_prepare", "bench_sample", "bench_table1", "bench_train"]
