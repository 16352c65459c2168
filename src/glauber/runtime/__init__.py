"""What the machine gives: files, memory, signals, progress. Imports nothing of ours."""
