from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from tests.webhook.fakes import make_answer
from webhook import metrics
from webhook.metrics import Recorder


def value(recorder: Recorder, name: str, **labels: str) -> float | None:
    return recorder.registry.get_sample_value(f"stationmaster_{name}", labels)


def series(recorder: Recorder) -> int:
    text = recorder.render().decode()
    return sum(len(family.samples) for family in text_string_to_metric_families(text))


def test_answers_are_counted_by_webhook_operation_and_decision() -> None:
    recorder = Recorder()

    for decision in ("allowed", "denied", "denied"):
        recorder.answered("mutate", make_answer(decision=decision), 0.001)

    labels = {"webhook": "mutate", "operation": "CREATE", "dry_run": "false"}
    counts = {
        decision: value(recorder, "admission_requests_total", decision=decision, **labels)
        for decision in ("allowed", "denied", "patched")
    }
    assert counts == {"allowed": 1, "denied": 2, "patched": None}


def test_the_time_of_a_review_is_observed() -> None:
    recorder = Recorder()

    recorder.answered("validate", make_answer(), 0.004)

    labels = {"webhook": "validate"}
    assert value(recorder, "admission_duration_seconds_sum", **labels) == 0.004
    assert value(recorder, "admission_duration_seconds_bucket", le="0.0025", **labels) == 0
    assert value(recorder, "admission_duration_seconds_bucket", le="0.005", **labels) == 1
    assert value(recorder, "admission_duration_seconds_bucket", le="+Inf", **labels) == 1
    assert value(recorder, "admission_duration_seconds_count", **labels) == 1


def test_a_time_on_a_bound_is_within_it_and_one_past_all_is_in_the_last_bucket() -> None:
    recorder = Recorder()

    for seconds in (0.005, 60.0):
        recorder.answered("validate", make_answer(), seconds)

    bucket = "admission_duration_seconds_bucket"
    bounds = ("0.0025", "0.005", "10.0", "+Inf")
    counts = [value(recorder, bucket, webhook="validate", le=bound) for bound in bounds]
    assert counts == [0, 1, 1, 2]


def test_a_dry_run_is_in_no_series_of_real_requests() -> None:
    recorder = Recorder()
    recorder.answered("mutate", make_answer(), 0.001)
    before = {s for s in recorder.render().splitlines() if b'dry_run="true"' not in s}

    recorder.answered("mutate", make_answer(dry_run=True), 0.001)

    after = {s for s in recorder.render().splitlines() if b'dry_run="true"' not in s}
    assert after == before
    labels = {"webhook": "mutate", "operation": "CREATE", "decision": "allowed", "dry_run": "true"}
    assert value(recorder, "admission_requests_total", **labels) == 1


def test_names_and_users_make_no_series() -> None:
    recorder = Recorder()
    recorder.answered("mutate", make_answer(), 0.001)
    before = series(recorder)

    for number in range(10_000):
        name = f"job-{number}"
        answer = make_answer(name=name, namespace=name, user=name, uid=name)
        recorder.answered("mutate", answer, 0.001)

    assert series(recorder) == before


def test_operations_that_do_not_exist_are_one_series() -> None:
    recorder = Recorder()
    recorder.answered("mutate", make_answer(operation="OTHER"), 0.001)
    before = series(recorder)

    for number in range(1000):
        recorder.answered("mutate", make_answer(operation=f"X{number}"), 0.001)

    assert series(recorder) == before
    labels = {"webhook": "mutate", "decision": "allowed", "dry_run": "false"}
    assert value(recorder, "admission_requests_total", operation="OTHER", **labels) == 1001


def test_what_is_turned_away_is_counted_by_its_reason() -> None:
    recorder = Recorder()

    recorder.rejected("too_large")
    recorder.handshake_failed("plain_http")
    recorder.fault("Torch", "EnforceMLPolicy")

    assert value(recorder, "http_requests_rejected_total", reason="too_large") == 1
    assert value(recorder, "tls_handshakes_failed_total", reason="plain_http") == 1
    labels = {"plugin": "Torch", "point": "EnforceMLPolicy"}
    assert value(recorder, "plugin_faults_total", **labels) == 1


def test_the_cache_tells_its_objects_and_forgets_kinds_that_are_gone() -> None:
    recorder = Recorder()

    recorder.loaded({"TrainingRuntime": 3, "LimitRange": 1})
    recorder.loaded({"TrainingRuntime": 2})
    recorder.load_failed()

    assert value(recorder, "cache_objects", kind="TrainingRuntime") == 2
    assert value(recorder, "cache_objects", kind="LimitRange") is None
    assert value(recorder, "cache_loads_total", result="ok") == 2
    assert value(recorder, "cache_loads_total", result="failed") == 1


def test_a_certificate_tells_its_end() -> None:
    recorder = Recorder()

    recorder.certificate("leaf", datetime(2027, 1, 1, tzinfo=UTC))

    assert value(recorder, "tls_certificate_not_after_seconds", which="leaf") == 1798761600


def test_the_mode_is_one_of_three_series() -> None:
    recorder = Recorder()

    recorder.mode("enforce")
    recorder.mode("warn")

    found = {mode: value(recorder, "mode", mode=mode) for mode in ("enforce", "warn", "off")}
    assert found == {"enforce": 0, "warn": 1, "off": 0}


def test_what_is_no_mode_is_a_series_until_it_is_mended() -> None:
    recorder = Recorder()

    def wrong(read: str) -> float | None:
        return value(recorder, "mode_not_understood", read=read, right="enforce, warn, off")

    recorder.mode("enforce", not_understood='"of"')
    assert wrong('"of"') == 1
    recorder.mode("enforce", not_understood='"offf"')
    assert (wrong('"of"'), wrong('"offf"')) == (None, 1)
    recorder.mode("off")
    assert wrong('"offf"') is None


def test_gauges_are_read_when_asked_for() -> None:
    recorder = Recorder()
    state = {"in_flight": 0.0}
    recorder.watch(in_flight=lambda: state["in_flight"], connections=lambda: 2)

    state["in_flight"] = 5

    assert value(recorder, "admission_in_flight") == 5
    assert value(recorder, "connections") == 2


def test_two_recorders_share_nothing() -> None:
    one, other = Recorder(), Recorder()

    one.rejected("busy")

    assert value(other, "http_requests_rejected_total", reason="busy") is None


def test_all_names_begin_with_ours_and_the_version_is_there() -> None:
    recorder = Recorder()
    recorder.version("1.2.3")

    families = list(text_string_to_metric_families(recorder.render().decode()))

    assert {f.name.split("_")[0] for f in families} == {"stationmaster"}
    assert value(recorder, "build_info", version="1.2.3") == 1
    assert metrics.CONTENT_TYPE.startswith("text/plain")


def test_events_are_counted_by_what_became_of_them() -> None:
    recorder = Recorder()
    recorder.event("created")
    recorder.event("dropped", 3)

    assert value(recorder, "events_total", result="created") == 1
    assert value(recorder, "events_total", result="dropped") == 3
