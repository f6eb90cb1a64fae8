"""The one way out: every request to somebody else's server goes through `HttpClient` and its guard.

Addresses come from users (references, webhooks) and from providers (results), so none of them is trusted: whatever
they say, no connection is made to a private address unless a setting allows it.
"""

from longtake.adapters.net.answers import Answer, StreamedAnswer
from longtake.adapters.net.client import HttpClient
from longtake.adapters.net.urls import same_origin, shown_url

__all__ = ["Answer", "HttpClient", "StreamedAnswer", "same_origin", "shown_url"]
