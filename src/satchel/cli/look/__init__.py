"""`satchel look VIEW`: show what a model computed for a text, as text, JSON or a figure."""

from importlib import import_module

import typer

VIEWS = (
    "attention", "surprise", "order", "lens", "senses", "contributions", "attribution", "alignment", "patterns",
    "ablation", "embeddings", "training",
)  # fmt: skip

app = typer.Typer(
    help="Show attention weights, surprisal, contributions and other internals of a model, as text, JSON or a figure.",
    no_args_is_help=True,
)
for name in VIEWS:
    # The module of a view contains a function with the name of the module.
    app.command(name)(getattr(import_module(f"satchel.cli.look.{name}"), name))
