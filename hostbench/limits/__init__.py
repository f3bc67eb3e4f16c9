"""Ceilings: what a link can carry at best, what others published, and whether the link is well."""
