"""Volcano: queues, pod groups and network domains as its users write them, and its scheduler configuration."""
