"""Run folders: the files of trained models."""
