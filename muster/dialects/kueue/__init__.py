"""Kueue: its objects, configuration and rules, read into the model and written back."""
