"""The paper's comparison in small: every method on one network, data and time; trained, sampled, bounded, evaluated, drawn."""

from glauber.bench.table1.run import bench_table1

__all__ = ["bench_table1"]
