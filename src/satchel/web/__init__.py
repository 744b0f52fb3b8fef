"""The HTTP server: OpenAI-compatible completions, a JSON API, and the processes that run models and trainings.

The HTTP process imports neither torch nor a model; models run in worker processes.
"""
