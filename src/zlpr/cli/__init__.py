"""The command line: one file per command, thin, and nothing imports it."""
