"""Built-in data sets, and opening a corpus by name or path.

To add a data set:

1. Write a module with its content: a function that draws one example from a `random.Random` (`polysemy.py`), or a
   function that yields all rows (`ab.py`).
2. Add an entry to the table in `registry.py`: name, task, description, generator and default settings.
"""
