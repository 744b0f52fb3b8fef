"""The `satchel` command: registers the subcommands and turns errors into messages and exit codes.

Exit codes: 0 success; 1 internal error; 2 error the user can fix; 3 the last save of a training failed;
130 interrupted by SIGINT, 143 by SIGTERM.
"""

import difflib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

import satchel
from satchel.errors import SatchelError
from satchel.text.display import quoted, safe, visible
from satchel.torchrun import launch

HELP = "Train, evaluate and inspect language models, classifiers, taggers and translators. Works offline."
COMMANDS = (
    "demo", "train", "evaluate", "compare", "mix", "score", "next", "generate", "classify", "tag", "translate",
    "senses", "similar", "probe", "report", "lesson", "data", "tokenize", "info", "export", "import_", "serve",
)  # fmt: skip

app = typer.Typer(
    name="satchel",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for name in COMMANDS:
    # The module of a command contains a function with the name of the module.
    app.command(name.rstrip("_"))(getattr(import_module(f"satchel.cli.{name}"), name))
for name in ("look", "runs"):
    app.add_typer(import_module(f"satchel.cli.{name}").app, name=name)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"satchel {satchel.__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of every error.")] = False,
) -> None:
    """Store the options that apply to all commands."""
    if debug:
        os.environ["SATCHEL_DEBUG"] = "1"


INTERRUPTION_CODES = (128 + signal.SIGINT, 128 + signal.SIGTERM)
INTERRUPTED = "interrupted; no incomplete files were left"
# Seconds between a signal and the end of the process if the command does not end earlier.
MOST_SECONDS = 3.0


class Interrupted(BaseException):
    """SIGINT or SIGTERM; derived from BaseException so that no `except Exception` catches it."""

    def __init__(self, code: int) -> None:
        self.code = code


def main() -> NoReturn:
    """Run the command line of this process and exit with its exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    if sys.platform != "win32":
        _limit_interruption()
    code = run(sys.argv[1:])
    if code in INTERRUPTION_CODES:
        # Freeing the memory of large objects can take seconds.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise Interrupted(128 + number)


def _limit_interruption() -> None:
    """Start a thread that ends the process if it has not ended MOST_SECONDS after SIGINT or SIGTERM.

    A signal handler runs between two instructions of Python. A single call of a library, such as sorting a large array
    or training a tokenizer, can take longer. The training of a network, which has its own signal handler, is not ended.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait() -> None:
        while True:
            number = os.read(reader, 1)[0]
            if signal.getsignal(number) is _interrupt:
                time.sleep(MOST_SECONDS)
                # Without this module, which imports pydantic, no file was written.
                if module := sys.modules.get("satchel.durable"):
                    module.remove_unfinished()
                print(f"satchel: {INTERRUPTED}", file=sys.stderr, flush=True)
                os._exit(128 + number)

    threading.Thread(target=wait, daemon=True).start()


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    group = typer.main.get_command(app)
    try:
        code = group.main(arguments, prog_name="satchel", standalone_mode=False)
        sys.stdout.flush()
    except SatchelError as error:
        text = str(SatchelError(error.cause, error.remedy, where=visible(error.where)))
        text += _example(group, arguments, getattr(error, "options", ()))
        return _fail(text, error) if launch().is_first else 2
    except BrokenPipeError:
        return _close_stdout()
    except SystemExit as error:
        # If a command itself gets the BrokenPipeError, click exits with a code of its own.
        if isinstance(error.__context__, BrokenPipeError):
            return _close_stdout()
        raise
    except Interrupted as interrupted:
        return _fail(INTERRUPTED, code=interrupted.code)
    except MemoryError as error:
        remedy = "use less text, a lower model.order, or pruning (--set model.prune=0,0,1)"
        return _fail(f"not enough memory\n{remedy}", error)
    except OSError as error:
        name = f"{visible(str(error.filename))}: " if error.filename else ""
        return _fail(
            f"{name}{error.strerror or error}\ncheck the disk space and the permissions, then try again", error
        )
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of click
            return _usage_error(error)
        # torch raises a plain RuntimeError if an allocation fails.
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            remedy = "use a smaller model or a smaller training.batch_tokens; saved checkpoints are intact"
            return _fail(f"not enough memory\n{remedy}", error)
        print(safe(traceback.format_exc()), file=sys.stderr)
        return _fail("this is a bug in satchel: please report the lines above", code=1)
    return code if isinstance(code, int) else 0


def _example(group: Any, arguments: list[str], options: Sequence[str]) -> str:
    """Return a line with the command and the options that an error suggests; empty if the command lacks one of them."""
    command = group
    for argument in arguments:
        command = getattr(command, "commands", {}).get(argument, command)
    flags = {flag for parameter in command.params for flag in parameter.opts}
    if not options or any(option.partition(" ")[0] not in flags for option in options):
        return ""
    return f"\nfor example: {' '.join(['satchel', *map(quoted, arguments), *options])}"


def _close_stdout() -> int:
    """Redirect stdout to the null device after its reader closed the pipe, so that Python can flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _usage_error(error: Any) -> int:
    """Print an error in the command line itself, with the most similar option if an option is unknown."""
    cause = error.format_message()
    if not cause:  # no arguments were given, and click has printed the help
        return 0
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "satchel"
    hint = f"`{path} --help` lists arguments and options"
    if context is not None and hasattr(error, "possibilities"):
        flags = [flag for each in context.command.params for flag in each.opts if flag.startswith("--")]
        extended = [flag for flag in flags if flag.startswith(f"{error.option_name}-")]
        similar = extended or difflib.get_close_matches(error.option_name, flags, n=1)
        cause = error.message
        hint = f"did you mean {similar[0]}? {hint}" if similar else f"its options are {', '.join(flags)}"
    elif context is not None and hasattr(context.command, "commands"):
        hint = f"expected {', '.join(context.command.commands)}"
    return _fail(f"{cause.rstrip('.')}\n{hint}")


def _fail(text: str, error: BaseException | None = None, *, code: int = 2) -> int:
    """Print an error message, and the traceback of `error` with --debug; return the exit code."""
    if error is not None and os.environ.get("SATCHEL_DEBUG"):
        print(safe(traceback.format_exc()), file=sys.stderr)
    first, *others = safe(text).split("\n")
    lines = [f"satchel: {first}", *(f"         {line}" for line in others)]
    print("\n".join(lines), file=sys.stderr)
    return code
