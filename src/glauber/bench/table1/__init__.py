"""The paper's table: every method on the same network, data and time; trained, sampled, bounded, judged, drawn."""

from glauber.bench.table1.run import bench_table1

__all__ = ["bench_table1"]
