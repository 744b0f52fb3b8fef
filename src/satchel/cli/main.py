"""`satchel VERB`: the verbs, and the one place where errors become text and exit codes.

0 done; 1 a bug; 2 the user can mend it; 130 interrupted by Ctrl-C, 143 by SIGTERM.
"""

import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

import satchel
from satchel.cli import classify, compare, evaluate, info, lesson, look, probe, senses, train, translate
from satchel.errors import SatchelError
from satchel.torchrun import launch

app = typer.Typer(
    name="satchel",
    help="Language models you can open: train them on your own text, look inside, change them. Works offline.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for module in (train, evaluate, classify, translate, senses, look, probe, compare, info, lesson):
    module.add_to(app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"satchel {satchel.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of any error.")] = False,
) -> None:
    """Language models you can open: train them on your own text, look inside, change them. Works offline."""
    del version
    if debug:
        os.environ["SATCHEL_DEBUG"] = "1"


class Stopped(BaseException):
    """The user or the system asked the process to stop; nothing on the way may take it for an error."""

    def __init__(self, code: int) -> None:
        self.code = code


def main() -> NoReturn:
    """Run the command line and leave with its exit code."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(run(sys.argv[1:]))


def _stop(number: int, frame: object) -> NoReturn:
    raise Stopped(128 + number)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="satchel", standalone_mode=False)
        sys.stdout.flush()
    except SatchelError as error:
        return _tell(error, str(error)) if launch().is_first else 2
    except BrokenPipeError:
        return _seen_enough()
    except SystemExit as left:
        # Where a verb itself finds the pipe closed, the library of the command line leaves with a code of its own.
        if isinstance(left.__context__, BrokenPipeError):
            return _seen_enough()
        raise
    except Stopped as stopped:
        return _tell(None, "interrupted; nothing was left half-written", stopped.code)
    except MemoryError as error:
        return _tell(error, "not enough memory\ntake less text, a lower order, or prune (--set model.prune=0,0,1)")
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _tell(error, f"{name}{error.strerror or error}\nthe disk or the system refused; mend that and try again")
    except Exception as error:
        if hasattr(error, "format_message"):
            return _usage(error)
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):  # torch has no error of its own
            return _tell(
                error, "not enough memory\ntake a smaller model, or training.batch_tokens; checkpoints are whole"
            )
        _show_traceback()
        return _tell(None, "this is a bug in satchel, not in your data: please report the lines above", 1)
    return code if isinstance(code, int) else 0


def _seen_enough() -> int:
    """Go quietly: whoever read the output has closed it. Python would complain once more when it does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _usage(error: Exception) -> int:
    """Tell what is wrong with the command line itself."""
    message = error.format_message()  # type: ignore[attr-defined]
    if not message:  # nothing was asked, and the help has been shown
        return 0
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "satchel"
    possible = getattr(error, "possibilities", None) or []
    guess = f"did you mean {possible[0]}? " if possible else ""
    return _tell(None, f"{message.rstrip('.')}\n{guess}`{command} --help` shows what there is")


def _tell(error: BaseException | None, text: str, code: int = 2) -> int:
    if error is not None and os.environ.get("SATCHEL_DEBUG"):
        _show_traceback()
    from satchel.text.display import safe

    first, *others = safe(text).split("\n")
    lines = [f"satchel: {first}", *(f"         {line}" for line in others)]
    print("\n".join(lines), file=sys.stderr)
    return code


def _show_traceback() -> None:
    import traceback

    traceback.print_exc()
