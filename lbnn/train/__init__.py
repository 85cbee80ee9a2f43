"""Training on data: the ELBO, priors, losses, metrics, pictures, and the reading of tables."""
