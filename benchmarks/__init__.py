"""Measurements: `python -m benchmarks --help`. They need the packages of the extra `benchmarks`."""
