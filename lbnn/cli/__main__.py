"""`python -m lbnn.cli` is `lbnn`."""

from lbnn.cli.main import main

main()
