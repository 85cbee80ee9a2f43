"""Networks that people already have, made Bayesian: one module for each kind."""
