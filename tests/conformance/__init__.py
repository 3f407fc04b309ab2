"""Conformance: other systems' recorded behaviour, replayed through the engine. `python -m tests.conformance DIR`."""
