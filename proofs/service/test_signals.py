"""Stopping real processes: in order by the first signal, at once by the second."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from longtake.db.ownership import FileOwnership
from tests.service.processes import Place
from tests.service.slow_jobs import APP, sign
from tests.service.test_application import job, place
from tests.wait import PATIENCE_SECONDS, wait_for

__all__ = ["place"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_gives_jobs_back_unspent_and_leaves_nothing_behind(
    place: Place, number: signal.Signals
) -> None:
    place.settings["LONGTAKE_STOP_GRACE_SECONDS"] = "0.2"
    with place.server(*APP) as server:
        wait_for(sign(place).exists, "the job's start")
        assert job(place) == ("running", 1)
        assert server.stop(number) == 0, server.log.read_text()
    assert job(place) == ("ready", 0)
    assert not (place.data / "server.json").exists()
    assert "Traceback" not in server.log.read_text()


def test_a_stopping_server_says_that_it_is_not_ready_and_the_second_signal_ends_it_at_once(place: Place) -> None:
    place.settings["LONGTAKE_STOP_GRACE_SECONDS"] = "600"
    with place.server(*APP) as server:
        wait_for(sign(place).exists, "the job's start")
        server.process.send_signal(signal.SIGTERM)
        answer = wait_for(lambda: (found := server.request("GET", "/readyz")).status == 503 and found, "the stopping")
        assert answer.json["checks"]["worker"] == "this process is stopping"
        assert server.request("GET", "/healthz").status == 200
        # The job would go on for longer than this waits.
        assert server.stop(signal.SIGTERM) == -signal.SIGTERM
    assert job(place) == ("running", 1)
    with place.server(*APP) as server:
        # Killed, not lost: the new owner takes it over at once.
        wait_for(lambda: job(place), "the rescue", lambda seen: seen == ("running", 2))


def test_a_worker_alone_stops_in_order_as_well(place: Place) -> None:
    place.settings["LONGTAKE_STOP_GRACE_SECONDS"] = "0.2"
    command = [sys.executable, "-m", "longtake", "worker", *APP, "--concurrency", "3"]
    process = subprocess.Popen(command, cwd=place.folder, env=place.environment, stderr=subprocess.DEVNULL)
    try:
        wait_for(sign(place).exists, "the job's start")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert job(place) == ("ready", 0)


def test_ctrl_c_ends_a_command_without_a_word(place: Place) -> None:
    ownership = FileOwnership(place.data / "longtake.db", "longtake worker")
    command = [sys.executable, "-X", "importtime", "-m", "longtake", "jobs", "list"]
    process = subprocess.Popen(command, cwd=place.folder, env=place.environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        # What it imports last says that it has got to work: it waits for the file now.
        said = ""
        while "longtake.terminal.progress" not in said:
            said = process.stderr.readline()
            assert said, "the command ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=PATIENCE_SECONDS) == 130
        assert "Traceback" not in rest
        assert "longtake:" not in rest
    finally:
        ownership.release()
        process.kill()
        process.communicate()
