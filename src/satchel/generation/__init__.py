"""Continuing a text: sampling and decoding, for every predictor."""
