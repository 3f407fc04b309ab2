"""Who may do what: tokens, roles, acting as others, and the record of what was done. Used by `asgi`."""
