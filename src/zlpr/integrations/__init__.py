"""Losses, metrics and the linear model in other frameworks' clothes."""
