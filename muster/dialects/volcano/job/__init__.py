"""Volcano's job controller as pure functions: what a job needs next follows from its objects and the time alone.

`steps` puts the parts together; `controllers.volcano_jobs` carries out what it says.
"""
