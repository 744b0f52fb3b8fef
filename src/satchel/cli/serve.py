"""`satchel serve`: serve runs over HTTP."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from satchel.cli.output import message, print
from satchel.text.display import quoted

DEFAULT_PORT = 8765


def serve(
    runs: Annotated[
        list[str] | None,
        Argument(metavar="RUN...", help="Runs to serve beside those below --root; the first is the default model."),
    ] = None,
    root: Annotated[Path, Option(help="Folder of runs, which are listed, trained and deleted.")] = Path("runs"),
    data: Annotated[
        list[Path] | None, Option("--data", metavar="DIR", help="Folder of files for training; repeatable.")
    ] = None,
    host: Annotated[str, Option(help="Address to listen on; others than loopback need --allow-remote.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 chooses a free one.", min=0, max=65535)] = DEFAULT_PORT,
    allow_remote: Annotated[
        bool, Option("--allow-remote", help="Accept requests of other machines; requires SATCHEL_TOKEN.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME[:PORT]", help="Accept this value of the Host header, that of a proxy; repeatable."),
    ] = None,
    log: Annotated[
        bool, Option("--log", help="Print a line of JSON for each request on stderr, without texts.")
    ] = False,
) -> None:
    """Serve runs: completions in the form of OpenAI's API, and a JSON API. Ctrl-C ends the server."""
    from satchel.web import server
    from satchel.web.catalogue import Catalogue

    is_remote = server.check_host(host, allow_remote=allow_remote)
    token = server.read_token(is_remote=is_remote)
    catalogue = Catalogue(root, [Path(run) for run in runs or []], data or [])
    default_run = catalogue.run_id(Path(runs[0])) if runs else None
    listener = server.bind(host, port)
    address = server.Address(host, listener.getsockname()[1], tuple(name.lower() for name in allow_host or []))
    if is_remote:
        message(
            "warning: the server is reachable from other machines, and the connection is not encrypted",
            "every holder of the token can read, train and delete runs",
        )

    def show(path: Path) -> None:
        print(f"Satchel at {address.url}/#token={token}", flush=True)
        message(
            f"OpenAI-compatible API: base URL {address.url}/v1, API key: the token (also in {quoted(path)})",
            "Ctrl-C ends the server",
        )

    try:
        server.serve(
            listener,
            address,
            token,
            catalogue,
            default_run=default_run,
            log=server.access_log if log else None,
            on_start=show,
        )
    finally:
        listener.close()
