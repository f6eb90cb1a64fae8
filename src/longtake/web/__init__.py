"""HTTP: health, readiness and the operators' actions. Every error is an RFC 9457 problem with a stable code."""

from longtake.web.build import Serving, create_web
from longtake.web.readiness import Readiness

__all__ = ["Readiness", "Serving", "create_web"]
