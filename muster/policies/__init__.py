"""Policies: one file each, with the constant `POLICY`; see `muster/engine/policy.py` for what they may answer."""
