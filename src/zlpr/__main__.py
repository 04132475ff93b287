"""`python -m zlpr` is the same as `zlpr`."""

from zlpr.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
