"""Probes of shares of a real card; measure.py runs them all."""
