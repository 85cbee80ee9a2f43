"""Moments in integers: quantised layers, and the reference that integer C equals bit for bit (docs/integers.md)."""
