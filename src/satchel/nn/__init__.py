"""Layers: attention, positions, blocks, recurrence. They take plain arguments and know nothing of text."""
