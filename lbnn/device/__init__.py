"""Cores, boards and compilers, and the emulators that run generated C on them."""
