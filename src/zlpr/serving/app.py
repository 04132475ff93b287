"""The HTTP service: its routes, and how what goes wrong is said."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from zlpr import __version__
from zlpr._errors import UserError
from zlpr.serving.batching import BusyError, StoppedError
from zlpr.serving.docs_page import docs_page
from zlpr.serving.guard import Access, Guard
from zlpr.serving.json_response import JsonResponse
from zlpr.serving.limits import Limits
from zlpr.serving.protocol import (
    inference_response,
    model_metadata,
    read_inference,
    server_metadata,
)
from zlpr.serving.review_routes import add_review
from zlpr.serving.service import ServedModel, Service, UnknownModelError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from zlpr.models import FittedModel
    from zlpr.serving.review import Review

Result = TypeVar("Result")
HEADER_LENGTH = "Inference-Header-Content-Length"
MOST_CONTRIBUTIONS = 1_000
MOST_FIGURES = 1_000_000
"""Scores, and as many probabilities, that are told by the labels' names in one answer."""
FEW_FIGURES = 20_000
"""Numbers up to which an answer is written out while all others wait: some milliseconds."""
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}


class PredictRequest(BaseModel):
    """Texts to label."""

    model_config = ConfigDict(extra="forbid", strict=True)
    texts: list[str] = Field(description="the texts", examples=[["Arrived broken."]])
    all_labels: bool = Field(False, description="figures of every label, not only of those chosen")


class ExplainRequest(BaseModel):
    """A text whose labels are to be explained."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(description="the text", examples=["Arrived broken."])
    label: str | None = Field(None, description="one label; all that are predicted where left out")
    top: int = Field(10, ge=0, le=MOST_CONTRIBUTIONS, description="n-grams to list of each label")


def create_app(
    models: "Mapping[str, FittedModel] | Service",
    *,
    access: Access | None = None,
    limits: Limits | None = None,
    reviews: "Mapping[str, Review] | None" = None,
    may_save: bool = False,
) -> Guard:
    """The service as an ASGI application, for uvicorn or any other server.

    Args:
        models: by name, the one that is asked where no name is given first.
        access: who may ask; anyone where left out.
        limits: how much, and how slowly.
        reviews: of the models on data, for the page, by the models' names.
        may_save: whether the page may save a rule in a copy of a model's folder.
    """
    limits = models.limits if isinstance(models, Service) else limits or Limits()
    service = models if isinstance(models, Service) else Service(models, limits)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(
        title="zlpr",
        version=__version__,
        description="Multi-label predictions of models that zlpr trained.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=JsonResponse,
    )
    _say_faults(app)
    _add_page(app)
    _add_answers(app, service)
    _add_protocol(app, service)
    add_review(app, service, reviews or {}, may_save=may_save)
    return Guard(app, access=access or Access(), limits=limits)


def _add_page(app: FastAPI) -> None:
    """The page's files, each under its own path: no path of a client's is ever opened."""
    folder = files("zlpr.serving") / "static"
    for path, (name, media_type) in PAGE_FILES.items():
        content = (folder / name).read_bytes()

        def page(content: bytes = content, media_type: str = media_type) -> Response:
            return Response(content, media_type=media_type)

        app.add_api_route(path, _as_route(page), include_in_schema=False)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html; charset=utf-8")


def _as_route(page: Any) -> Any:
    """A route without parameters, lest the defaults become some."""

    async def route() -> Response:
        made: Response = page()
        return made

    return route


async def _refuse_other_parameters(request: Request) -> None:
    """A misspelt name would otherwise be answered by the first model."""
    other = next((name for name in request.query_params if name != "model"), None)
    if other is not None:
        raise UserError(f"{other[:100]}: no such parameter of this address; it takes model=NAME")
    if len(request.query_params.getlist("model")) > 1:
        raise UserError("model: given more than once; ask one model at a time")


def _add_answers(app: FastAPI, service: Service) -> None:
    @app.post(
        "/predict",
        summary="The labels of texts, with scores and probabilities",
        tags=["plain JSON"],
        dependencies=[Depends(_refuse_other_parameters)],
    )
    async def predict(
        asked: PredictRequest, request: Request, model: str | None = None
    ) -> Response:
        served = service.find(model)
        answers = await wait_for(served.answer_texts(asked.texts), request, service.limits)
        figures = sum(len(one.scores) for one in answers)
        if asked.all_labels and figures > MOST_FIGURES:
            raise UserError(
                f"all_labels: {figures:,} scores are too many to tell by name; send fewer texts "
                "at a time, or leave it out"
            )

        def make() -> Response:
            names = served.model.label_names
            plain = [one.to_json(names, all_labels=asked.all_labels) for one in answers]
            return JsonResponse({"model": served.name, "answers": plain})

        return await _made(make, figures if asked.all_labels else 0)

    @app.post(
        "/explain",
        summary="What the words of a text add to its labels' scores",
        tags=["plain JSON"],
        dependencies=[Depends(_refuse_other_parameters)],
    )
    async def explain(
        asked: ExplainRequest, request: Request, model: str | None = None
    ) -> Response:
        served = service.find(model)
        future = served.explain(asked.text, asked.label, asked.top)
        (explanations,) = await wait_for(future, request, service.limits)
        return JsonResponse(
            {"model": served.name, "explanations": [asdict(one) for one in explanations]}
        )


def _add_protocol(app: FastAPI, service: Service) -> None:
    tags: list[Any] = ["Open Inference Protocol"]

    @app.get("/v2", summary="The server's name, version and extensions", tags=tags)
    async def server() -> Response:
        return JsonResponse(server_metadata())

    @app.get("/v2/health/live", summary="Whether the server runs", tags=tags)
    async def live() -> Response:
        return JsonResponse({"live": True})

    @app.get("/v2/health/ready", summary="Whether every model answers", tags=tags)
    async def ready() -> Response:
        return JsonResponse({"ready": service.ready}, 200 if service.ready else 503)

    for prefix, shown in (("/v2/models/{name}", True), ("/v2/models/{name}/versions/1", False)):

        @app.get(
            prefix, summary="What a model reads and answers", tags=tags, include_in_schema=shown
        )
        async def metadata(name: str) -> Response:
            return JsonResponse(model_metadata(service.find(name)))

        @app.get(
            f"{prefix}/ready", summary="Whether a model answers", tags=tags, include_in_schema=shown
        )
        async def model_ready(name: str) -> Response:
            served = service.find(name)
            body = {"name": served.name, "ready": served.ready}
            return JsonResponse(body, 200 if served.ready else 503)

        @app.post(
            f"{prefix}/infer",
            summary="Tensors in, tensors out",
            description="BYTES `text` of shape [n], or FP32 `features`; gives `labels`, `scores`, "
            "`probabilities` and `decisions`, as JSON or as the binary extension has it.",
            tags=tags,
            include_in_schema=shown,
        )
        async def infer(name: str, request: Request) -> Response:
            return await _infer(service.find(name), request, service.limits)


async def _infer(served: ServedModel, request: Request, limits: Limits) -> Response:
    asked = read_inference(await request.body(), request.headers.get(HEADER_LENGTH), served)
    scores_only = asked.outputs.keys() == {"scores"}
    if isinstance(asked.inputs, list):
        future = served.answer_texts(asked.inputs, scores_only=scores_only)
    else:
        future = served.answer_features(asked.inputs, scores_only=scores_only)
    answers = await wait_for(future, request, limits)

    def make() -> Response:
        head, tails = inference_response(served, asked, answers)
        response = JsonResponse(head)
        if not tails:
            return response
        return Response(
            bytes(response.body) + b"".join(tails),
            media_type="application/octet-stream",
            headers={HEADER_LENGTH: str(len(response.body))},
        )

    return await _made(make, len(answers) * len(served.model.label_names))


async def _made(make: Callable[[], Response], figures: int) -> Response:
    """An answer, made in a thread of its own where that takes so long that others would wait."""
    return make() if figures <= FEW_FIGURES else await asyncio.to_thread(make)


async def wait_for(
    future: "Future[list[Result]]", request: Request, limits: Limits
) -> list[Result]:
    """A worker's answer, unless it takes too long or the client leaves.

    Raises:
        HTTPException: 504 where it took too long.
    """
    answer: asyncio.Future[list[Result]] = asyncio.wrap_future(future)
    leaving: asyncio.Future[Any] = asyncio.ensure_future(
        request.receive()
    )  # the body is read: nothing else can come
    try:
        both: set[asyncio.Future[Any]] = {answer, leaving}
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(both, timeout=limits.seconds, return_when=first)
        if answer.done():
            return answer.result()
        if leaving.done():
            raise HTTPException(499, "the client left")
        raise HTTPException(504, f"no answer within {limits.seconds:g} seconds; send fewer texts")
    finally:
        answer.cancel()  # and with it what still waits for the worker
        leaving.cancel()


def _say_faults(app: FastAPI) -> None:
    """Every fault is one line of JSON, in the form of the Open Inference Protocol."""

    def said(status: int, line: str, **headers: str) -> Response:
        return JsonResponse({"error": line}, status, headers)

    @app.exception_handler(UserError)
    async def user_error(_: Request, fault: Exception) -> Response:
        return said(404 if isinstance(fault, UnknownModelError) else 400, str(fault))

    @app.exception_handler(RequestValidationError)
    async def unfit(_: Request, fault: Any) -> Response:
        first = fault.errors()[0]
        if first["type"] == "json_invalid":
            return said(400, "the body is not JSON")
        if first["type"] == "model_attributes_type":
            return said(400, "expected a JSON object, sent as Content-Type: application/json")
        place = ".".join(str(part) for part in first["loc"] if part != "body")[:100]
        return said(400, f"{place}: {first['msg']}" if place else first["msg"])

    @app.exception_handler(HTTPException)
    async def plain(_: Request, fault: Any) -> Response:
        return said(fault.status_code, str(fault.detail), **(fault.headers or {}))

    @app.exception_handler(BusyError)
    async def busy(_: Request, fault: Exception) -> Response:
        return said(503, f"{fault}; come back in a second", **{"Retry-After": "1"})

    @app.exception_handler(StoppedError)
    async def stopped(_: Request, fault: Exception) -> Response:
        return said(503, str(fault))
