"""Muster: queues, quota, gangs and slices of cards for AI and batch clusters, from one snapshot and one ledger."""

__version__ = "0.1.0"
