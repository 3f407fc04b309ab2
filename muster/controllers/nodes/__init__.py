"""Nodes as loops over the pods that are bound to them: what pods go through, heartbeats, and simulated nodes."""
