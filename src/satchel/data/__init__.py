"""Token files: a text as ids on disk."""
