"""Fitted models where they are used: over HTTP with a page, and in exported files."""

from typing import TYPE_CHECKING

from zlpr._lazy import lazy_names

if TYPE_CHECKING:
    from zlpr.serving.app import create_app as create_app
    from zlpr.serving.guard import Access as Access
    from zlpr.serving.limits import Limits as Limits
    from zlpr.serving.service import Service as Service

_PLACES = {
    "Access": "zlpr.serving.guard",
    "Limits": "zlpr.serving.limits",
    "Service": "zlpr.serving.service",
    "create_app": "zlpr.serving.app",
}
__all__ = ["Access", "Limits", "Service", "create_app"]
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
