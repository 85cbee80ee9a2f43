"""`python -m lbnn` is `lbnn`; torchrun starts it so."""

from lbnn.cli.main import main

main()
