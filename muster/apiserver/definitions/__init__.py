"""Kinds that users define: CustomResourceDefinition, and the objects of the kinds that such definitions describe."""
