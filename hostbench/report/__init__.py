"""Answers in words, tables, Markdown."""
