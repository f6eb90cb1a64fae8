"""Chances and limits, without a server: the same seed gives the same faults."""

from __future__ import annotations

from longtake_sandbox.calls import Exchange
from longtake_sandbox.faults import Faults, RuleBody
from longtake_sandbox.sandbox import Limit, RateLimiter


def drawn(seed: int, count: int = 400) -> list[bool]:
    faults = Faults(seed)
    faults.add(RuleBody.model_validate({"fault": {"kind": "drop"}, "probability": 0.3}))
    return [faults.choose(Exchange("kie", "query", "/")) is not None for _ in range(count)]


def test_a_probability_is_kept_and_repeats_with_its_seed() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert 80 < sum(drawn(1)) < 160


def test_callbacks_are_only_met_by_rules_that_name_them() -> None:
    faults = Faults(0)
    faults.add(RuleBody.model_validate({"match": {"provider": "kie"}, "fault": {"kind": "drop"}}))
    assert faults.choose(Exchange("kie", "callback", "/")) is None
    faults.add(RuleBody.model_validate({"match": {"route": "callback"}, "fault": {"kind": "drop"}}))
    assert faults.choose(Exchange("kie", "callback", "/")) is not None


def test_a_window_slides_and_counts_each_key_and_only_what_it_lets_in() -> None:
    limiter, limit = RateLimiter(), Limit.parse("2/10")
    assert [limiter.admit("a", limit, at) for at in (0, 1, 2, 9.9)] == [True, True, False, False]
    assert limiter.admit("b", limit, 2)
    assert limiter.wait("a", limit, 9) == 1
    assert limiter.admit("a", limit, 10)
    assert not limiter.admit("a", limit, 10.5)
    assert limiter.admit("a", limit, 11)
