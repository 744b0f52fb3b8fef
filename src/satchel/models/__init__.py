"""Encoders: token ids in, one context-sensitive vector per position out."""
