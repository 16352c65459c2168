"""`python -m glauber` is the command `glauber`."""

from glauber.cli import main

main()
