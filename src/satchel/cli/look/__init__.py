"""`satchel look VIEW`: show what a model computed for a text, as text, JSON or a figure."""

import typer

from satchel.cli.look.ablation import ablation
from satchel.cli.look.alignment import alignment
from satchel.cli.look.attention import attention
from satchel.cli.look.attribution import attribution
from satchel.cli.look.contributions import contributions
from satchel.cli.look.embeddings import embeddings
from satchel.cli.look.lens import lens
from satchel.cli.look.order import order
from satchel.cli.look.patterns import patterns
from satchel.cli.look.senses import senses
from satchel.cli.look.surprise import surprise
from satchel.cli.look.training import training

app = typer.Typer(
    help="Show attention weights, surprisal, contributions and other internals of a model, as text, JSON or a figure.",
    no_args_is_help=True,
)
for command in (
    attention, surprise, order, lens, senses, contributions, attribution, alignment, patterns, ablation, embeddings,
    training,
):  # fmt: skip
    app.command()(command)
