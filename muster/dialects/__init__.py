"""Dialects: how the objects of one system are read into the model and how decisions are written back."""
