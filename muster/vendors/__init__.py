"""Families of cards, a folder each, with the constant VENDOR. They do not know each other; `app` finds them."""
