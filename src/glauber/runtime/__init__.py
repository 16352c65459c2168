"""What the machine gives: precision, compiled code, CUDA graphs, files, memory, signals, progress."""
