"""The HTTP application: routes of OpenAI's API, of the tokenizer, of the JSON API, and of the server itself."""

import sys
import traceback
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response

import satchel
from satchel.errors import SatchelError, expectation
from satchel.text.display import finite
from satchel.web import limits
from satchel.web.catalogue import Catalogue
from satchel.web.completions import Completion, CompletionRequest
from satchel.web.context import ServerContext
from satchel.web.errors import ERROR_TYPES, InvalidFieldError, NotFoundError, ServerError, error_document, json_bytes
from satchel.web.generation import GenerateRequest, Generator, generate
from satchel.web.metrics import Metrics
from satchel.web.operation import Operation, Request, imported
from satchel.web.operations import OPERATIONS
from satchel.web.operations_runs import RUN_OPERATIONS
from satchel.web.pool import Pool
from satchel.web.static_files import FILES, read
from satchel.web.streams import EventStream, error_response
from satchel.web.tokenization import TOKENIZER_OPERATIONS, TokenizerInfoRequest, TokenizerRequest

# Statuses of invalid requests: OpenAI's clients expect 400.
OPENAI_STATUS, API_STATUS = 400, 422
JSON_TYPE = "application/json"


class Services:
    """The parts of the server that routes use."""

    def __init__(self, context: ServerContext, pool: Pool, default_run: str | None) -> None:
        self.context, self.pool, self.default_run = context, pool, default_run
        self.metrics = Metrics()
        self.generator = Generator(pool, self.metrics, context.catalogue.run)

    @property
    def catalogue(self) -> Catalogue:
        """The runs and data files that can be named."""
        return self.context.catalogue

    def language_models(self) -> list[dict[str, Any]]:
        """Return the runs that are language models."""
        return [run for run in self.catalogue.list_runs() if run["task"] == "lm"]

    def with_model(self, request: TokenizerRequest) -> TokenizerRequest:
        """Return a request that names a model: the default one if it names none."""
        if request.model is not None:
            return request
        names = [self.default_run] if self.default_run else [run["run"] for run in self.language_models()]
        if len(names) != 1:
            raise InvalidFieldError(
                "model",
                f"found {len(names)} language models, expected one",
                "name it, or start the server with one RUN",
            )
        return request.model_copy(update={"model": names[0]})

    async def call(self, operation: Operation, request: Request, invalid: int) -> Response:
        """Return the response to an operation of the JSON API."""
        paths = {name: str(self.catalogue.run(name)) for name in request.run_ids()}
        paths |= {name: str(self.catalogue.data(name)) for name in request.data_ids()}
        place = request.place() or operation.place
        if place == "server":
            return await self._call_here(operation, request, invalid)
        kind = type(request)
        message = {
            "call": operation.function,
            "request": f"{kind.__module__}:{kind.__qualname__}",
            "body": request.model_dump(mode="json", by_alias=True),
            "paths": paths,
        }
        seconds = limits.LONG_SECONDS if place == "long" else limits.SHORT_SECONDS
        async with self.pool.submit(place, message, seconds=seconds) as events:
            async for reply in events:
                if "reply" in reply.document:
                    return Response(reply.content, media_type=JSON_TYPE)
                if "array" in reply.document:
                    array = reply.document["array"]
                    headers = {"x-shape": ",".join(map(str, array["shape"])), "x-dtype": array["dtype"]}
                    return Response(reply.content, headers=headers, media_type="application/octet-stream")
        raise AssertionError("operations of workers reply once")

    async def _call_here(self, operation: Operation, request: Request, invalid: int) -> Response:
        result = await run_in_threadpool(imported(operation.function), self.context, request)
        if isinstance(result, Iterator):
            return EventStream(iterate_in_threadpool(result), invalid=invalid)
        return Response(json_bytes(finite(result)), media_type=JSON_TYPE)


def create_app(services: Services) -> FastAPI:
    """Return the application without access control (see `security.Guard`)."""
    app = FastAPI(
        title="Satchel", version=satchel.__version__, docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    for path in FILES:
        _add_file(app, path)
    _add_server_routes(app, services)
    _add_openai_routes(app, services)
    for operation in TOKENIZER_OPERATIONS:
        _add_tokenizer_route(app, services, operation)
    for operation in (*OPERATIONS, *RUN_OPERATIONS):
        _add_operation(app, services, operation)
    _add_generation(app, services)
    app.add_exception_handler(SatchelError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_unexpected)
    return app


# --- routes ---------------------------------------------------------------------------------------------


def _add_file(app: FastAPI, path: str) -> None:
    @app.get(path, include_in_schema=False)
    async def file() -> Response:
        content, media_type = read(path)
        return Response(content, media_type=media_type)


def _add_server_routes(app: FastAPI, services: Services) -> None:
    @app.get("/health", summary="Return whether the server answers requests.", responses=_replies(503))
    async def health() -> JSONResponse:
        is_available = services.pool.is_available
        return JSONResponse({"status": "ok" if is_available else "unavailable"}, 200 if is_available else 503)

    @app.get("/metrics", summary="Return counters in the text format of Prometheus.", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(services.metrics.text(services.pool.running, services.pool.waiting))

    @app.get("/limits", summary="Return the limits of requests and of the server.")
    async def show_limits() -> JSONResponse:
        return JSONResponse(limits.table())

    @app.get("/openapi.json", summary="Return this description of all routes.")
    async def schema() -> JSONResponse:
        return JSONResponse(openapi(app))


def _add_openai_routes(app: FastAPI, services: Services) -> None:
    def entry(run: dict[str, Any]) -> dict[str, Any]:
        created = int(datetime.fromisoformat(run["date"]).timestamp())
        return {"id": run["run"], "object": "model", "created": created, "owned_by": "satchel"}

    @app.get("/v1/models", summary="List the language models.")
    async def models() -> JSONResponse:
        runs = await run_in_threadpool(services.language_models)
        return JSONResponse({"object": "list", "data": [entry(run) for run in runs]})

    @app.get("/v1/models/{model:path}", summary="Return one language model.", responses=_replies(404))
    async def model(model: str) -> JSONResponse:
        runs = await run_in_threadpool(services.language_models)
        for run in runs:
            if run["run"] == model:
                return JSONResponse(entry(run))
        raise NotFoundError(f"there is no language model {model}", "GET /v1/models lists them")

    @app.post(
        "/v1/completions",
        summary="Continue prompts.",
        response_class=Response,
        responses=_replies(404, 503, 504, streams=True, keys=("id", "object", "created", "model", "choices")),
    )
    async def completions(request: CompletionRequest) -> Response:
        completion = Completion(services.generator, request)
        if request.stream:
            return EventStream(completion.chunks(), invalid=OPENAI_STATUS, end=b"[DONE]")
        return JSONResponse(await completion.document())

    @app.post("/v1/chat/completions", summary="Not available: language models have no chat format.", status_code=404)
    async def chat() -> Response:
        raise NotFoundError("the models of this server are language models without a chat format: use /v1/completions")


def _add_tokenizer_route(app: FastAPI, services: Services, operation: Operation) -> None:
    if operation.request is TokenizerInfoRequest:

        async def info(
            model: Annotated[str | None, Query(min_length=1, max_length=limits.MAX_NAME)] = None,
        ) -> Response:
            request = TokenizerInfoRequest(model=model)
            return await services.call(operation, services.with_model(request), OPENAI_STATUS)

        _add(app, f"/{operation.name}", info, operation, method="GET")
        return

    async def answer(request: Any) -> Response:
        return await services.call(operation, services.with_model(request), OPENAI_STATUS)

    answer.__annotations__["request"] = operation.request
    _add(app, f"/{operation.name}", answer, operation)


def _add_operation(app: FastAPI, services: Services, operation: Operation) -> None:
    async def answer(request: Any) -> Response:
        return await services.call(operation, request, API_STATUS)

    answer.__annotations__["request"] = operation.request
    _add(app, f"/api/{operation.name}", answer, operation)


def _add(app: FastAPI, path: str, answer: Any, operation: Operation, method: str = "POST") -> None:
    app.add_api_route(
        path,
        answer,
        methods=[method],
        name=operation.name,
        summary=operation.summary,
        response_class=Response,
        responses=_replies(404, 409, 503, 504, keys=operation.keys, streams=operation.is_stream),
    )


def _add_generation(app: FastAPI, services: Services) -> None:
    keys = ("prompt", "samples", "tokens_per_second", "window", "speculative", "notes", "terminal", "python")

    @app.post(
        "/api/generate",
        summary="Continue a prompt.",
        response_class=Response,
        responses=_replies(404, 503, 504, streams=True, keys=keys),
    )
    async def generation(request: GenerateRequest) -> Response:
        documents = generate(services.generator, request)
        if request.stream:
            return EventStream(documents, invalid=API_STATUS)
        async for document in documents:
            last = document
        return JSONResponse(last)


# --- errors ---------------------------------------------------------------------------------------------


def _invalid_status(request: HttpRequest) -> int:
    """Return the status of invalid requests to a route."""
    return API_STATUS if request.url.path.startswith("/api/") else OPENAI_STATUS


async def _answer_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, SatchelError)
    return error_response(error, _invalid_status(request))


async def _answer_invalid(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    detail = error.errors()[0]
    # The names of the alternatives of a union, such as `list[str]`, are not part of the path of a field.
    path = [str(part) for part in detail["loc"][1:]]
    if detail["type"] == "json_invalid":
        return _invalid_response(request, "the body is not valid JSON", None)
    field = path[0] if path else None
    if detail["type"] == "extra_forbidden":
        return _invalid_response(request, f"unknown field {field}", field)
    expected = UNIONS.get(str(field)) or expectation(detail)
    return _invalid_response(request, f"{'.'.join(path) or 'the body'}: expected {expected}", field)


# Expected values of the fields with several types.
UNIONS = {
    "prompt": "a text, a list of texts, token ids, or lists of token ids, none of them empty or too long",
    "stop": f"a text or a list of at most {limits.MAX_STOPS} texts",
}


def _invalid_response(request: HttpRequest, message: str, field: str | None) -> Response:
    return JSONResponse(error_document(message, "invalid_request_error", param=field), _invalid_status(request))


async def _answer_http_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "there is no such route", 405: f"the method {request.method} is not available for this route"}
    if error.status_code == 400:
        return _invalid_response(request, "the body cannot be read as JSON", None)
    kind = ERROR_TYPES.get(error.status_code, "invalid_request_error")
    document = error_document(messages.get(error.status_code, "the request is refused"), kind)
    return JSONResponse(document, error.status_code, error.headers)


async def _answer_unexpected(request: HttpRequest, error: Exception) -> Response:
    """Log where an unexpected error occurred, without its message, which may contain text of users."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    print(f"satchel server: {type(error).__name__}\n{frames}", file=sys.stderr, flush=True)
    return error_response(ServerError("internal error; the log of the server contains the details"), 500)


# --- OpenAPI --------------------------------------------------------------------------------------------

ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
                "remedy": {"type": ["string", "null"]},
            },
        }
    },
}
ERRORS = {
    400: "Invalid request.", 401: "Missing or wrong token.", 403: "Refused Host or Origin.",
    404: "Unknown run, data or route.", 405: "Wrong method.", 408: "Slow request.", 409: "Conflict.",
    413: "The body is too large.", 415: "The body is not JSON.", 422: "Invalid field.", 429: "Too many requests.",
    503: "Overloaded: try again later.", 504: "The time limit was reached.",
}  # fmt: skip


def _replies(*statuses: int, keys: Sequence[str] = (), streams: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route for the OpenAPI schema."""
    content: dict[str, Any] = {JSON_TYPE: {"schema": {"type": "object", "required": list(keys)}}}
    if streams:
        data = {"type": "string", "contentMediaType": JSON_TYPE}
        # Up to OpenAPI 3.1, the schema is that of one event.
        content["text/event-stream"] = {"schema": {"type": "object", "properties": {"data": data}}}
    replies: dict[int | str, dict[str, Any]] = (
        {200: {"description": "The reply.", "content": content}} if keys or streams else {}
    )
    return replies | {status: {} for status in statuses}


def openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of all routes, with the errors that access control adds to each of them."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schema["components"]["schemas"]["Error"] = ERROR_SCHEMA
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        error = {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}
        for path, methods in schema["paths"].items():
            for method, route in methods.items():
                invalid = {API_STATUS, 400} if path.startswith("/api/") else {OPENAI_STATUS}
                statuses = {401, 403, 413, 415, 429, 503} | (
                    invalid if method == "post" or route.get("parameters") else set()
                )
                statuses |= {int(status) for status in route["responses"] if int(status) >= 400} - {422}
                replies = {
                    str(status): {"description": ERRORS[status], "content": error} for status in sorted(statuses)
                }
                route["responses"] = {key: each for key, each in route["responses"].items() if key < "400"} | replies
                if path != "/health":
                    route["security"] = [{"token": []}]
        app.openapi_schema = schema
    return app.openapi_schema


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Return (method, path) of all routes."""
    api_routes = [route for route in app.routes if isinstance(route, APIRoute)]
    return [(method, route.path) for route in api_routes for method in sorted(route.methods or ())]
