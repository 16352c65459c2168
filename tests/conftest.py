import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # here and in the programs that tests start: sums differ between numbers of threads
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would what tests start

import torch  # noqa: E402  (after what it reads)

torch.set_num_threads(1)
