"""Kinds of job, one file each, with the constant INTEGRATION. They do not know each other; `app` finds them."""
