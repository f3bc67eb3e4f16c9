"""Telling people: a message for each confirmed change, and a comment on a pull request.

Nothing is sent unless the environment says where to. Tokens and the addresses of webhooks are
secrets: they come from the environment alone, and are in no text, no error and no file.
"""
