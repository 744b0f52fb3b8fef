"""Inspection of trained models: one module per view with its results, based on the protocol `subject.Subject`."""
