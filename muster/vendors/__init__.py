"""Families of cards, a file or folder each, with the constant VENDOR, or VENDORS where it holds several kinds of card.

They do not know each other; `app` finds them. What they have in common is in `muster/engine/devices_vendor.py`.
"""
