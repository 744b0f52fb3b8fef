"""Built-in data sets, and opening a corpus by name or path.

To add a data set:

1. Write a module with its content: a function that draws one example from a `random.Random` (`polysemy.py`), or a
   function that yields all rows (`python_docs.py`).
2. Add its generator to the table in `registry.py`, and its task, description and default settings to `registry.toml`.
"""
