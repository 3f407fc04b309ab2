"""Server-side apply: who set which field of an object, and how what somebody applies becomes part of it.

`schema` and `kinds` say how a kind's fields merge, `fieldsets` are the sets of fields that managers own, `compare` and
`merge` work on objects, `fresh` is for new ones, `managers` is `metadata.managedFields`, `updater` decides what a write
does to it, `ownership` is what the store asks at every write, and `handling` is what requests to apply are made of.
"""
