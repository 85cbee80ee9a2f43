"""What every other package stands on: errors, the pair of moments, files, text on a terminal, our own resources."""
