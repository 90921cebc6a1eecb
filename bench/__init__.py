"""Benchmarks: scaling gates on regraft itself, and comparisons with peers. `make bench` runs them.

A benchmark is a module `bench/bench_<name>.py` with a function `run() -> list[Table]`. It raises if a gate is missed,
which fails the whole run. Times are medians of several runs, in the unit of the column's title. A peer gets the same
input and does the same work. `bench.table` holds `Table`. Nothing in `src` imports this package.

Everything runs on one thread: libraries read the number of threads when they load, after this module sets it.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
