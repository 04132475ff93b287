"""Fitted models where they are used: exported files, and what predicts with them."""
