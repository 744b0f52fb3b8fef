"""Requests generated from the OpenAPI schema: no response 500, and every response is one that the schema describes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

from satchel.web.app import Services, create_app, routes
from satchel.web.catalogue import Catalogue
from satchel.web.context import ServerContext
from satchel.web.pool import Pool
from satchel.web.static_files import FILES
from satchel.web.trainings import Trainings
from tests.web import client
from tests.web.client import Server

Schema = dict[str, Any]
# Fields that are names of the server, with requests that start trainings or delete runs left out.
RUNS = ["ngram", "transformer", "gated", "lstm", "backpack", "films", "tagger", "translator", "polysemy", "absent"]
DATA = ["data/verse.txt", "data/films.tsv", "data/ratings.tsv", "@absent"]
LESSONS = ["counting", "attention", "scaling", "absent"]
NAMES = {"run": RUNS, "runs": RUNS, "model": RUNS, "data": DATA, "valid": DATA, "similarity": DATA, "name": LESSONS}
CHANGING = {"NewRunRequest", "NamedRequest", "DeleteRequest"}
# Largest values of the numbers that determine the time of a request.
COSTS = {"tokens": 3, "max_tokens": 3, "samples": 2, "n": 2, "best_of": 3, "beam": 3, "best": 3}
CHECKS = (
    "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection",
)  # fmt: skip


def _routes() -> list[tuple[str, str]]:
    """Return (method, path) of all routes but those of the files of the page, which are not in the schema."""
    catalogue = Catalogue(Path("absent"))
    app = create_app(Services(ServerContext(catalogue, Trainings(catalogue)), Pool(), None))
    return [(method, path.replace(":path}", "}")) for method, path in routes(app) if path not in FILES]


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of copies of the runs, which some of the requests may change."""
    folder = tmp_path_factory.mktemp("schema")
    for name in ("runs", "data"):
        shutil.copytree(root / name, folder / name)
    running = client.start(folder, "--root", folder / "runs", "--data", folder / "data")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def schema(server: Server) -> Schema:
    """The OpenAPI schema, in which the names of runs, data and lessons are those of the server."""
    document: Schema = server.get("/openapi.json").json
    for name, model in document["components"]["schemas"].items():
        for field, property_ in model.get("properties", {}).items():
            if field in NAMES and name not in CHANGING:
                _name(property_, NAMES[field])
    return document


def _name(property_: Schema, names: list[str]) -> None:
    """Add an enumeration to the strings in the schema of a field."""
    for each in (property_, property_.get("items", {}), *property_.get("anyOf", ())):
        if each.get("type") == "string" and "enum" not in each:
            each["enum"] = names


def _cheaper(body: Any) -> Any:
    """Return a valid body whose request takes little time."""
    if not isinstance(body, dict):
        return body
    numbers = {name: value for name in COSTS if isinstance(value := body.get(name), int | float) and value}
    return {**body, **{name: int(value) % (COSTS[name] + 1) or 1 for name, value in numbers.items()}}


@pytest.mark.parametrize("cases", [300, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize(("method", "path"), _routes())
def test_responses_to_generated_requests_are_those_of_the_schema(
    server: Server, schema: Schema, method: str, path: str, cases: int
) -> None:
    load_all_checks()
    checks: Any = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKS]
    operation = schemathesis.openapi.from_dict(schema)[path][method]
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {server.token}"

    def send(case: schemathesis.Case[Any]) -> None:
        if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
            case.body = _cheaper(case.body)
        response = case.call(base_url=server.url, session=session)
        assert response.status_code != 500, (case.body, server.log.read_text()[-2000:])
        assert response.status_code != 503 or "retry-after" in response.headers
        # The size of a body is checked before its content.
        applicable = checks[:-1] if response.status_code == 413 else checks
        case.validate_response(response, checks=applicable)

    has_input = operation.body or operation.query or operation.path_parameters
    with session:
        _run(operation, GenerationMode.POSITIVE, cases // 2 if has_input else 1, send)
        if has_input:
            _run(operation, GenerationMode.NEGATIVE, cases // 2, send)


def _run(operation: Any, mode: GenerationMode, cases: int, send: Callable[[schemathesis.Case[Any]], None]) -> None:
    """Send generated requests."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    limits: Any = settings(
        max_examples=cases, deadline=None, database=None, phases=phases, suppress_health_check=list(HealthCheck)
    )
    generated: Any = given(operation.as_strategy(generation_mode=mode))
    limits(generated(send))()
