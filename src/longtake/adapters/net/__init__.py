"""Outgoing HTTP: every request to another server goes through `HttpClient` and its guard.

URLs come from users (references, webhooks) and from providers (results), so none is trusted: no connection is made to
a private address unless a setting allows it.
"""

from longtake.adapters.net.client import HttpClient
from longtake.adapters.net.guard import same_origin, shown_url
from longtake.adapters.net.responses import Response, StreamedResponse

__all__ = ["HttpClient", "Response", "StreamedResponse", "same_origin", "shown_url"]
