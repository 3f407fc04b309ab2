"""Admission checks that Muster makes itself, one file each; `base` is what they share. Put together by `app`.

Checks of others need nothing here: whoever makes one writes its state into the workload.
"""
