"""Who finds the cards of a machine: one file for each vendor. Chosen by `app` for `muster agent`."""
