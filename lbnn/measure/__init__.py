"""What a model costs and whether every backend computes it: parity, inspect, bench, report."""
