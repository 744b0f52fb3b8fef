"""Checks that a change of the code changes no numbers: run folders and trainings of the previous version."""
