from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import webhook
from tests.webhook.cli.conftest import Run
from webhook.cli.options import Address
from webhook.config import ServeOptions


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    calls: list[ServeOptions] = []

    def run_server(options: ServeOptions) -> int:
        calls.append(options)
        return 0

    fake = SimpleNamespace(run=run_server)
    monkeypatch.setitem(sys.modules, "webhook.wiring", fake)
    monkeypatch.setattr(webhook, "wiring", fake, raising=False)
    return calls


def test_the_defaults_are_those_of_the_options(run: Run, served: list[ServeOptions]) -> None:
    assert run("serve", "--from", "cluster").code == 0
    assert served == [ServeOptions(directory=Path("cluster"))]


def test_all_options_arrive(run: Run, served: list[ServeOptions]) -> None:
    ran = run(
        *("serve", "--from", "c", "--listen", ":9000", "--health-listen", "[::1]:0"),
        *("--profile", "p.yaml", "--trainer-version", "2.2", "--cert-dir", "certs"),
        *("--podgroups", "--no-events"),
        *("--log-format", "text", "--log-level", "debug"),
    )
    assert (ran.code, ran.err) == (0, [])
    assert served == [
        ServeOptions(
            directory=Path("c"),
            listen=("", 9000),
            health_listen=("::1", 0),
            profile=Path("p.yaml"),
            pod_groups=True,
            events=False,
            trainer_version="2.2",
            cert_dir=Path("certs"),
            log_format="text",
            log_level="debug",
        )
    ]


CLUSTERS = {
    "the cluster of a kubeconfig": (
        ("--kubeconfig", "k", "--context", "c"),
        ServeOptions(kubeconfig=Path("k"), context="c"),
    ),
    "the cluster around us": (("--in-cluster",), ServeOptions(in_cluster=True)),
    "our namespace, where the switch is": (
        ("--kubeconfig", "k", "--namespace", "ours"),
        ServeOptions(kubeconfig=Path("k"), namespace="ours"),
    ),
    "old knowledge is refused": (
        ("--in-cluster", "--stale", "fail", "--stale-seconds", "30"),
        ServeOptions(in_cluster=True, stale="fail", stale_seconds=30.0),
    ),
    "a certificate of files": (
        ("--in-cluster", "--cert-files", "tls"),
        ServeOptions(in_cluster=True, cert_files=Path("tls")),
    ),
    "the same before a folder": (
        ("--from", "c", "--cert-files", "tls"),
        ServeOptions(directory=Path("c"), cert_files=Path("tls")),
    ),
}


@pytest.mark.parametrize(("words", "want"), CLUSTERS.values(), ids=CLUSTERS)
def test_a_cluster_arrives(
    run: Run, served: list[ServeOptions], words: tuple[str, ...], want: ServeOptions
) -> None:
    assert run("serve", *words).code == 0
    assert served == [want]


NOT_ONE = {
    "none": (),
    "a folder and a kubeconfig": ("--from", "c", "--kubeconfig", "k"),
    "a kubeconfig and in-cluster": ("--kubeconfig", "k", "--in-cluster"),
    "a context of no kubeconfig": ("--in-cluster", "--context", "c"),
    "all of them": ("--from", "c", "--kubeconfig", "k", "--in-cluster"),
}


@pytest.mark.parametrize("words", NOT_ONE.values(), ids=NOT_ONE)
def test_exactly_one_cluster_is_named(
    run: Run, served: list[ServeOptions], words: tuple[str, ...]
) -> None:
    assert run("serve", *words).code == 2
    assert served == []


@pytest.mark.parametrize(
    "words", [("--in-cluster",), ("--kubeconfig", "k", "--cert-files", "tls")], ids=" ".join
)
def test_no_ca_is_left_of_a_certificate_that_is_not_ours(
    run: Run, served: list[ServeOptions], words: tuple[str, ...]
) -> None:
    assert run("serve", *words, "--cert-dir", "certs").code == 2
    assert served == []


ADDRESSES = {
    "127.0.0.1:9443": ("127.0.0.1", 9443),
    "localhost:0": ("localhost", 0),
    ":8081": ("", 8081),
    "[::]:9443": ("::", 9443),
    "9443": None,
    "host:": None,
    "host:65536": None,
    "host:-1": None,
    "host:٣": None,
    "::1:9443": None,
}


@pytest.mark.parametrize(("text", "want"), ADDRESSES.items())
def test_addresses(text: str, want: tuple[str, int] | None) -> None:
    if want is None:
        with pytest.raises(click.BadParameter, match=r"HOST:PORT|brackets"):
            Address().convert(text, None, None)
    else:
        assert Address().convert(text, None, None) == want


def test_a_pod_knows_our_namespace(
    run: Run, served: list[ServeOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ours")
    assert run("serve", "--in-cluster").code == 0
    assert served == [ServeOptions(in_cluster=True, namespace="ours")]
