"""A receiver of webhooks: `SECRET=whsec_… python examples/webhook_receiver.py 8000` prints what it is told."""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError


class Receiver(BaseHTTPRequestHandler):
    """Believes only what is signed with the secret, and not older than five minutes."""

    def do_POST(self) -> None:
        """Answer quickly; whatever takes long is done afterwards."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = Webhook(os.environ["SECRET"]).verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            self.send_response(401)
        else:
            print(self.headers["webhook-id"], event["type"], event["data"]["id"], flush=True)
            self.send_response(204)
        self.end_headers()


if len(sys.argv) != 2 or not sys.argv[1].isdigit() or "SECRET" not in os.environ:  # noqa: PLR2004
    sys.exit(f"Usage: SECRET=whsec_… python {sys.argv[0]} PORT")
HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
