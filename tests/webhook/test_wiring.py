from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.review import create_review
from certs import authority
from plugins.framework.errors import ConfigError
from policies.compile import CompiledPolicy
from tests.certs.handshake import client_context
from tests.policies.custom.packages import publish
from tests.reviews import recorded
from tests.webhook.fakes import Client, review
from tests.webhook.running import Running, serving
from webhook import certfiles, logs, wiring
from webhook.config import ServeOptions
from webhook.metrics import Recorder
from webhook.mode import PREFIX
from webhook.wiring import Hints

ROOT = Path(__file__).parents[2]

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: NAME
spec:
  mlPolicy:
    numNodes: 2
    torch: {}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata:
            labels:
              trainer.kubeflow.org/trainjob-ancestor-step: trainer
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: example.test/trainer:1
"""


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "runtime.yaml").write_text(RUNTIME.replace("NAME", "base-torch"))
    return ServeOptions(
        directory=folder,
        listen=("127.0.0.1", 0),
        health_listen=("127.0.0.1", 0),
        cert_dir=tmp_path / "certs",
        drain_seconds=0.0,
        poll_seconds=0.02,
    )


def write(options: ServeOptions, name: str, text: str) -> None:
    """Put a file into the folder that is served."""
    assert options.directory is not None
    (options.directory / name).write_text(text)


async def nothing(_running: Running) -> None:
    await asyncio.sleep(0)


async def test_the_first_line_says_where_it_serves(options: ServeOptions) -> None:
    running = await serving(options, nothing)

    first = running.lines[0]
    assert first["msg"] == "serving"
    assert first["webhook"] == f"https://127.0.0.1:{running.service.port}"
    assert first["health"] == f"http://127.0.0.1:{running.service.health_port}"
    assert first["ca"] == str(options.cert_dir and options.cert_dir / "stationmaster-ca.crt")


async def test_it_is_ready_and_answers(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        assert await running.health("/readyz") == 200
        client = await running.connect()
        response = await client.post("/mutate?timeout=10s", create_review("demo", "base-torch"))
        assert response.json["response"]["allowed"] is True
        assert response.json["response"]["patchType"] == "JSONPatch"
        refused = await client.post("/mutate", create_review("demo", "no-such-runtime"))
        assert refused.json["response"]["status"]["code"] == 422
        assert (await client.post("/mutate", review())).status == 400
        client.close()

    await serving(options, story)


IMPORTED_BY_REVIEWS = """
import asyncio, io, sys, time
from pathlib import Path
import orjson
from benchmarks.review import create_review, policy
from webhook import logs, wiring
from webhook.config import ServeOptions

async def story() -> None:
    folder, certs = map(Path, sys.argv[1:])
    anywhere = ("127.0.0.1", 0)
    options = ServeOptions(directory=folder, listen=anywhere, health_listen=anywhere, cert_dir=certs)
    service = wiring.Service(options, logs.build(io.BytesIO()))
    await service.start()
    before = set(sys.modules)
    reviewer = service._admission._decide
    job = create_review("demo", "base-torch")
    document = orjson.loads(job)
    about = {"group": "stationmaster.dev", "version": "v1alpha1"}
    document["request"] |= {
        "kind": {**about, "kind": "TrainJobPolicy"},
        "resource": {**about, "resource": "trainjobpolicies"},
        "object": {**policy(0), "spec": {"limits": "none"}},
    }
    decisions = [
        (await reviewer[webhook](body, deadline=time.monotonic() + 30)).decision
        for webhook, body in (("mutate", job), ("validate", job), ("validate", orjson.dumps(document)))
    ]
    print(orjson.dumps([decisions, sorted(set(sys.modules) - before)]).decode())

asyncio.run(story())
"""


def test_no_review_waits_for_an_import(options: ServeOptions) -> None:
    """Also not the first one of a policy, of a server that has none."""
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED_BY_REVIEWS, str(options.directory), str(options.cert_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert orjson.loads(ran.stdout) == [["patched", "allowed", "denied"], []]


TRAIN_JOB = f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: gang
  namespace: team
  uid: {recorded.review(15)["request"]["object"]["metadata"]["ownerReferences"][0]["uid"]}
spec:
  runtimeRef:
    name: base-torch
  trainer:
    numNodes: NODES
"""


async def ask_for_members(running: Running) -> int | None:
    """What a PodGroup of four members is corrected to; None where it stays."""
    client = await running.connect()
    answer = await client.post("/mutate-podgroups?timeout=5s", orjson.dumps(recorded.review(15)))
    client.close()
    assert answer.status == 200
    response = answer.json["response"]
    assert response["allowed"]
    patch = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    return next((o["value"] for o in patch if o["path"] == "/spec/minMember"), None)


async def test_a_podgroup_is_corrected_by_the_trainjobs_of_the_folder(
    options: ServeOptions,
) -> None:
    write(options, "job.yaml", TRAIN_JOB.replace("NODES", "3"))

    async def story(running: Running) -> None:
        assert await ask_for_members(running) == 3
        write(options, "job.yaml", TRAIN_JOB.replace("NODES", "5"))
        while await ask_for_members(running) != 5:  # noqa: ASYNC110  # a file, not an event
            await asyncio.sleep(0.02)

    running = await serving(replace(options, pod_groups=True), story)

    first = next(line for line in running.lines if line.get("kind") == "PodGroup")
    assert (first["decision"], first["webhook"], first["name"]) == (
        "patched",
        "mutate-podgroups",
        "gang",
    )


async def test_a_podgroup_stays_as_it_is_unless_we_are_told(options: ServeOptions) -> None:
    write(options, "job.yaml", TRAIN_JOB.replace("NODES", "3"))

    async def story(running: Running) -> None:
        assert await ask_for_members(running) is None

    await serving(options, story)


async def test_told_to_leave_it_is_not_ready_while_it_drains(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        running.service.stop(60.0)
        assert await running.health("/readyz") == 503
        assert await running.health("/healthz") == 200

    # The second call to stop, at the end, cuts the minute short.
    running = await serving(options, story)

    assert running.messages()[-1] == "leaving"


async def test_sigterm_ends_it_though_connections_are_idle(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        clients = [await running.connect() for _ in range(20)]
        os.kill(os.getpid(), signal.SIGTERM)
        assert all([await client.ended() for client in clients])

    await serving(options, story)


async def test_a_change_of_the_folder_is_taken_over(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        write(options, "more.yaml", RUNTIME.replace("NAME", "other"))
        while "folder changed" not in running.messages():  # noqa: ASYNC110  # a file, not an event
            await asyncio.sleep(0.02)

    running = await serving(options, story)

    assert [line["objects"] for line in running.lines if "objects" in line] == [2]


RULES = """\
apiVersion: stationmaster.dev/v1alpha1
kind: NamespacedTrainJobPolicy
metadata: {name: rules, namespace: team}
spec:
  failurePolicy: Ignore
  defaults: {labels: {half: done}}
  validations: [{name: v, expression: "EXPRESSION"}]
"""
GROWS = "object.metadata.name" + ".replace('', 'xxxxxxxxxxxxxxxx')" * 9 + ".size() > 0"


async def test_a_policy_that_is_not_in_force_is_told_once_in_the_log(options: ServeOptions) -> None:
    write(options, "policy.yaml", RULES.replace("EXPRESSION", "nonsense"))

    async def story(running: Running) -> None:
        for number in range(2):
            write(options, f"{number}.yaml", RUNTIME.replace("NAME", f"other-{number}"))
            while running.messages().count("folder changed") <= number:  # noqa: ASYNC110  # a file
                await asyncio.sleep(0.02)

    running = await serving(options, story)

    assert running.messages()[0] == "serving"
    [line] = [line for line in running.lines if line["msg"] == "policy"]
    assert (line["level"], line["namespace"], line["name"]) == ("warning", "team", "rules")
    assert '"nonsense" is neither a variable nor a function' in line["problem"]


@pytest.mark.slow
async def test_a_policy_that_took_its_workers_down_is_out_and_nothing_of_it_is_done(
    options: ServeOptions,
) -> None:
    write(options, "policy.yaml", RULES.replace("EXPRESSION", GROWS))
    body = create_review("demo", "base-torch")

    async def story(running: Running) -> None:
        client = await running.connect()
        response: dict[str, Any] = {"warnings": []}
        while "not Ready until it changes" not in str(response["warnings"]):
            response = (await client.post("/mutate?timeout=30s", body)).json["response"]
        client.close()
        patch = base64.b64decode(response.get("patch", ""))
        assert b"half" not in patch
        metrics = (await running.ask("/metrics"))[1]
        assert 'outcome="quarantined"} 1.0' in metrics
        assert 'kind="NamespacedTrainJobPolicy",ready="false"} 1.0' in metrics

    running = await serving(options, story)

    [line] = [line for line in running.lines if line["msg"] == "policy"]
    assert (line["policy"], line["problem"]) == ("team/rules", "its worker was killed 2 times")


async def test_a_broken_folder_is_told_and_the_last_good_state_kept(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        write(options, "more.yaml", "a: [PASSWORD")
        while len(running.lines) < 2:  # noqa: ASYNC110  # a file, not an event
            await asyncio.sleep(0.02)
        assert await running.health("/readyz") == 200

    running = await serving(options, story)

    line = running.lines[1]
    assert line["msg"] == "folder cannot be used, the last good state is kept"
    assert "more.yaml" in line["problem"]
    assert b"PASSWORD" not in running.log.getvalue()


MODE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: stationmaster-mode
data:
  mode: MODE
"""


async def test_the_switch_is_thrown_by_a_file_and_needs_no_restart(options: ServeOptions) -> None:
    assert options.directory is not None
    file = options.directory / "mode.yaml"

    async def story(running: Running) -> None:
        client = await running.connect()

        async def ask(runtime: str) -> Any:
            reply = await client.post("/mutate", create_review("demo", runtime))
            return reply.json["response"]

        await running.until("/metrics", 'stationmaster_mode{mode="enforce"} 1.0')
        assert (await ask("no-such-runtime"))["allowed"] is False
        file.write_text(MODE.replace("MODE", '"off"'))
        await running.until("/metrics", 'stationmaster_mode{mode="off"} 1.0')
        assert (await ask("no-such-runtime")).keys() == {"uid", "allowed", "auditAnnotations"}
        file.write_text(MODE.replace("MODE", "warn"))
        await running.until("/metrics", 'stationmaster_mode{mode="warn"} 1.0')
        [warning] = (await ask("no-such-runtime"))["warnings"]
        assert warning.startswith(f"{PREFIX} refuse this: spec.runtimeRef.name: Not found")
        assert "patch" not in await ask("base-torch")
        file.write_text(MODE.replace("MODE", "off"))  # without quotes: YAML's false
        await running.until("/metrics", 'stationmaster_mode_not_understood{read="false"')
        assert (await ask("no-such-runtime"))["warnings"] == [warning]
        file.unlink()
        await running.until("/metrics", 'stationmaster_mode{mode="enforce"} 1.0')
        assert (await ask("no-such-runtime"))["allowed"] is False
        _, counted = await running.ask("/metrics")
        labels = 'dry_run="false",operation="CREATE",webhook="mutate"'
        for decision in ("off", "would_be_denied", "would_be_patched"):
            assert f'decision="{decision}",{labels}}} ' in counted
        client.close()

    running = await serving(options, story)

    told = [(line["before"], line["mode"]) for line in running.lines if "before" in line]
    assert told == [("enforce", "off"), ("off", "warn"), ("warn", "enforce")]


async def test_a_folder_may_begin_switched_off(options: ServeOptions) -> None:
    write(options, "mode.yaml", MODE.replace("MODE", '"off"'))

    async def story(running: Running) -> None:
        client = await running.connect()
        response = await client.post("/mutate", create_review("demo", "no-such-runtime"))
        assert response.json["response"]["allowed"] is True
        client.close()

    running = await serving(options, story)

    assert running.messages()[:2] == ["mode is set", "serving"]


async def test_a_folder_that_is_broken_from_the_start_is_an_error(options: ServeOptions) -> None:
    write(options, "runtime.yaml", "a: [")

    with pytest.raises(ConfigError, match=r"runtime\.yaml"):
        await serving(options, nothing)


async def test_a_taken_port_is_an_error(options: ServeOptions) -> None:
    async def story(running: Running) -> None:
        taken = ("127.0.0.1", running.service.port)
        with pytest.raises(ConfigError, match="cannot listen on"):
            await serving(
                ServeOptions(directory=options.directory, listen=taken, cert_dir=options.cert_dir),
                nothing,
            )

    await serving(options, story)


async def test_files_of_a_certificate_are_served_as_soon_as_they_are_there(
    options: ServeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certfiles, "POLL_SECONDS", 0.02)
    ca = authority.create(datetime.now(UTC))
    pair = authority.issue(ca, ["localhost"], datetime.now(UTC))
    folder = tmp_path / "mounted"
    folder.mkdir()

    async def story(running: Running) -> None:
        assert await running.health("/readyz/certificate") == 503
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        while await running.health("/readyz") != 200:  # noqa: ASYNC110  # only the answer tells
            await asyncio.sleep(0.02)
        client = await Client.connect(running.service.port, client_context(ca.pem))
        response = await client.post("/mutate", create_review("demo", "base-torch"))
        assert response.json["response"]["allowed"] is True
        client.close()

    running = await serving(replace(options, cert_files=folder), story)

    assert running.service.ca_file is None
    assert "ca" not in running.lines[0]
    assert "certificate taken over" in running.messages()


async def test_a_chore_that_ends_is_told_and_gets_us_restarted(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: object) -> None:
        await asyncio.sleep(0)
        raise RuntimeError

    monkeypatch.setattr(wiring.Folder, "follow", broken)

    async def story(running: Running) -> None:
        while "event loop error" not in running.messages():  # noqa: ASYNC110  # a log, not an event
            await asyncio.sleep(0.01)
        assert await running.health("/readyz") == 200
        assert await running.health("/healthz/certificate") == 200
        assert await running.health("/healthz/chores") == 503

    running = await serving(options, story)

    assert running.lines[1]["what"] == "a chore has ended"


def test_who_keeps_the_certificates_hears_of_each_caller_that_does_not_trust_us() -> None:
    heard: list[str] = []
    hints = Hints(Recorder(), logs.build(io.BytesIO()), distrusted=lambda: heard.append("heard"))

    for reason in ("untrusted", "closed", "not_tls", "untrusted"):
        hints.handshake_failed(reason)

    assert heard == ["heard", "heard"]


def test_a_hint_is_given_once_a_minute() -> None:
    log = io.BytesIO()
    now = [100.0]
    recorder = Recorder()
    hints = Hints(recorder, logs.build(log), clock=lambda: now[0])

    for moment in (100.0, 101.0, 159.0, 160.0):
        now[0] = moment
        hints.handshake_failed("untrusted")
    hints.handshake_failed("closed")

    assert [orjson.loads(line)["reason"] for line in log.getvalue().splitlines()] == [
        "untrusted",
        "untrusted",
    ]
    name = "stationmaster_tls_handshakes_failed_total"
    assert recorder.registry.get_sample_value(name, {"reason": "untrusted"}) == 4
    assert recorder.registry.get_sample_value(name, {"reason": "closed"}) == 1


POLICY = """\
apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata:
  name: few-nodes
spec:
  limits:
  - name: nodes
    nodes: {max: 1}
  exceptions: {rules: [nodes], longest: 720h}
---
apiVersion: stationmaster.dev/v1alpha1
kind: PolicyException
metadata:
  name: large-run
  namespace: NAMESPACE
spec:
  policies: [{name: few-nodes}]
  expiresAt: "9999-01-01T00:00:00Z"
"""
DAY = 24 * 60 * 60.0


async def judged(running: Running) -> tuple[bool, str]:
    client = await running.connect()
    answer = await client.post("/mutate?timeout=10s", create_review("demo", "base-torch"))
    client.close()
    response = answer.json["response"]
    return response["allowed"], response.get("status", {}).get("message", "")


async def test_an_exception_without_a_date_is_as_old_as_its_file(options: ServeOptions) -> None:
    namespace = orjson.loads(create_review("demo", "base-torch"))["request"]["namespace"]
    write(options, "policy.yaml", POLICY.replace("NAMESPACE", namespace))
    assert options.directory is not None
    file = options.directory / "policy.yaml"
    now = datetime.now(UTC).timestamp()

    async def story(running: Running) -> None:
        assert await judged(running) == (True, "")
        os.utime(file, (now, now - 31 * DAY))
        while (await judged(running))[0]:  # noqa: ASYNC110  # a file, not an event
            await asyncio.sleep(0.02)
        assert "[few-nodes/nodes] Forbidden: the job has 2 nodes" in (await judged(running))[1]

    await serving(options, story)


async def test_the_policies_of_a_folder_are_compiled_before_they_are_swapped(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[bool] = []
    original = CompiledPolicy.__init__

    def compiling(self: CompiledPolicy, *args: Any, **named: Any) -> None:
        compiled.append(threading.current_thread() is threading.main_thread())
        original(self, *args, **named)

    monkeypatch.setattr(CompiledPolicy, "__init__", compiling)
    write(options, "policy.yaml", POLICY.replace("NAMESPACE", "elsewhere"))

    async def story(running: Running) -> None:
        assert len(compiled) == 1
        assert not (await judged(running))[0]
        write(options, "policy.yaml", POLICY.replace("max: 1", "max: 100"))
        while not (await judged(running))[0]:  # noqa: ASYNC110  # a file, not an event
            await asyncio.sleep(0.02)

    await serving(options, story)

    assert compiled == [True, False]


CUSTOM_OPTION = """
STARTED = CustomOption(name="started", make=lambda: lambda job_spec, trainer, backend: job_spec.update(
    metadata={"labels": {"started": "yes"}}))
BROKEN = 5
"""
CUSTOM_POLICY = """\
apiVersion: stationmaster.dev/v1alpha1
kind: TrainJobPolicy
metadata: {name: custom}
spec: {defaults: {options: [{name: started}]}}
"""


async def test_custom_options_are_imported_before_the_first_request(
    options: ServeOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, tmp_path / "site", CUSTOM_OPTION, "started", "broken")
    write(options, "policy.yaml", CUSTOM_POLICY)

    async def story(running: Running) -> None:
        assert running.service._workers.options._tasks
        assert not running.service._workers.expressions._tasks
        client = await running.connect()
        answer = await client.post("/mutate?timeout=10s", create_review("demo", "base-torch"))
        patch = base64.b64decode(answer.json["response"]["patch"])
        written = {one["path"]: one.get("value") for one in orjson.loads(patch)}
        assert written["/metadata/labels/started"] == "yes"
        client.close()

    running = await serving(options, story)
    [warning] = [line for line in running.lines if line["msg"] == "option cannot be used"]
    assert (warning["option"], warning["package"]) == ("broken", "outside 2.0")


async def test_it_is_not_ready_while_options_are_being_imported(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is open by then, and would keep callers waiting."""
    said: list[tuple[int, int, bytes]] = []

    async def importing(service: wiring.Service) -> None:
        client = await Client.connect(service.health_port, None)
        ready = await client.ask("GET", "/readyz")
        alive = await client.ask("GET", "/healthz")
        said.append((ready.status, alive.status, ready.body))
        client.close()

    async def story(running: Running) -> None:
        assert await running.health("/readyz") == 200

    monkeypatch.setattr(wiring.Service, "_start_options", importing)
    await serving(options, story)
    [(ready, alive, body)] = said
    assert (ready, alive) == (503, 200)
    assert b"[-]started failed: options are being imported\n" in body


async def test_it_does_not_start_where_the_interpreter_for_options_is_none(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story(_running: Running) -> None:
        raise AssertionError

    monkeypatch.setenv("STATIONMASTER_OPTIONS_PYTHON", str(tmp_path / "python"))
    with pytest.raises(ConfigError, match="STATIONMASTER_OPTIONS_PYTHON must name a Python"):
        await serving(options, story)


async def test_it_answers_until_it_has_said_good_bye_and_a_while_longer(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API servers learn of it by a watch: with the listener closed by then, they would fail closed."""
    order: list[str] = []

    async def story(running: Running) -> None:
        service = running.service
        drain = service._webhook.drain

        async def leave() -> None:
            await asyncio.sleep(0)
            order.append("good-bye")

        async def draining(seconds: float) -> None:
            order.append("drain")
            await drain(seconds)

        monkeypatch.setattr(service, "_trust", service._trust._replace(leave=leave))
        monkeypatch.setattr(service._webhook, "drain", draining)

    await serving(options, story)
    assert order == ["good-bye", "drain"]
