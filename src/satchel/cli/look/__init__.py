"""`satchel look VIEW`: show what a model computed for a text, as text, JSON or a figure."""

from importlib import import_module

import typer

# Module of each view, in the order of the help text.
VIEWS = {
    "attention": "attention", "surprise": "tokens", "order": "tokens", "lens": "tokens", "senses": "contributions",
    "contributions": "contributions", "attribution": "contributions", "alignment": "attention",
    "patterns": "attention", "ablation": "attention", "embeddings": "embeddings", "training": "training",
    "gradients": "gradients",
}  # fmt: skip

app = typer.Typer(
    help="Show attention weights, surprisal, contributions and other internals of a model, as text, JSON or a figure.",
    no_args_is_help=True,
)
for name, module in VIEWS.items():
    app.command(name)(getattr(import_module(f"satchel.cli.look.{module}"), name))
