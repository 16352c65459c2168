import os

os.environ["OMP_NUM_THREADS"] = "1"  # here and in the programs that tests start: sums differ between numbers of threads

import torch

torch.set_num_threads(1)
