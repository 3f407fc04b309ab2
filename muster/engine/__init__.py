"""The engine: pure decisions over the model; no input, output, clock, chance, threads or logs."""
