"""Loops that read the store, decide what follows, and write it back."""
