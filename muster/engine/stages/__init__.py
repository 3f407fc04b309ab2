"""Stages: the verbs of a cycle, each a function over one `Cycle`."""
