"""The command line: thin shells around satchel.api."""
