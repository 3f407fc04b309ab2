"""Benchmarks: load shapes and the figures they give. `python -m bench` prints them."""
