"""Logs, commands and ports of running pods, in the protocols that kubectl speaks."""
