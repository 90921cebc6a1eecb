"""Benchmarks: scaling gates on regraft itself, and comparisons with peers. `make bench` runs them.

A benchmark is a module `bench/bench_<name>.py` with a function `run() -> list[Table]`. It raises when a gate
is missed, which fails the whole run. Times are medians of several runs, in the unit that the column's title
names, and a peer gets the same input and does the same work. `bench.table` holds `Table`; nothing of `src`
knows of this package.

Everything runs on one thread: libraries read how many they may have when they load, which is after this.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
