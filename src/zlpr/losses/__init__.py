"""Multi-label losses: scores and targets in, a number with a gradient out."""
