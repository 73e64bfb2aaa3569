"""How good the predictions are, and the page of the documentation that says so."""

import os

# Before numpy is loaded: its sums differ in their last digits with the number of threads, which can
# move a peak across the end of an interval; and small matrices are faster on one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
