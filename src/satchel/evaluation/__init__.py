"""Evaluation on held-out data: likelihood, classification, translation, comparison, similarity, statistics."""
