"""How many webhook deliveries a second one worker makes to a receiver that answers at once; there is no goal.

64 are under way at once and 8 of them to one endpoint, as shipped. 20 users have an endpoint each, and events are
written faster than they can be delivered; the clock runs from the first request at the receiver to the last.
"""

import http.client
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import children, servers, telling
from bench.ground import Ground, reason, say
from bench.outside import wait_until_answering
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on

USERS = [f"user-{number}" for number in range(20)]
EVENTS = 2_000
RATE = 1_000.0
SECONDS = 60.0


def rows(ground: Ground) -> list[Row]:
    return [row_for(ground, dialect) for dialect in LABELS]


def row_for(ground: Ground, dialect: str) -> Row:
    try:
        figure = Measured(observe(ground, dialect))
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figure
        figure = Measured(reason=reason(failure))
    return limited(f"webhook deliveries of one worker, {LABELS[dialect]}", figure, "a second", None)


def observe(ground: Ground, dialect: str) -> float:
    events = ground.options.number(EVENTS)
    with service_on(ground, dialect) as service, ExitStack() as stack:
        service.environment["LONGTAKE_APP"] = telling.APPLICATION
        token = service.command("token", "--role", "service", "--user", "bench")
        apart = dialect == "postgresql"
        stack.enter_context(service.running("serve", *(["--no-worker"] if apart else [])))
        if apart:
            stack.enter_context(service.running("worker"))
        ready = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="longtake-bench-"))) / "ready"
        port = servers.free_port()
        arguments = {"port": port, "ready_file": str(ready), "expected": events, "seconds": SECONDS}
        receiver = stack.enter_context(children.running("bench.receiver:receive", **arguments))
        wait_until_answering(ready.stat, receiver)
        add_endpoints(service, token, port)
        telling.order(service, events, RATE, USERS)
        came = receiver.result(SECONDS + 30.0)
    assert len(came) >= events, f"{len(came)} of {events} deliveries came"
    rate = len(came) / (came[-1] - came[0])
    say(f"  {dialect}: {rate:.0f} a second, the last after {came[-1] - came[0]:.1f} s")
    return float(rate)


def add_endpoints(service: Service, token: str, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    body = json.dumps({"url": f"http://127.0.0.1:{port}/", "events": ["task.progress"]})
    for user in USERS:
        headers = {"Authorization": f"Bearer {token}", "Longtake-User": user, "Content-Type": "application/json"}
        connection.request("POST", "/v1/webhooks", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in {200, 201}, text[:200]
    connection.close()
