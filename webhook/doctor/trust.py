"""Checks of the certificates: of what is served, and of what the API server trusts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from cryptography import x509

from certs import bundle, injection, stored
from webhook.doctor.facts import Facts, Unread
from webhook.doctor.finding import Finding, fail, ok, unread, warn
from webhook.doctor.installed import of
from webhook.kube.injector import UNREAD
from webhook.kube.shared import CONFIGURATIONS, SECRET, names_of

CERTIFICATE: Final = "certificate"
CA_BUNDLE: Final = "ca-bundle"

MOUNTED: Final = "stationmaster-serving"
"""The Secret that cert-manager fills, as the manifests have it."""

LATE: Final = 0.8
"""Of a certificate's life; both ways renew at two thirds of it."""

_MENDED: Final = {
    "self-managed": "the Lease's holder mends this within ten seconds; if it stays, see lease, deployment and rbac",
    "cert-manager": (
        "cert-manager mends this; if it stays, ask why: kubectl --namespace {namespace} describe"
        " certificates, and the log of its cainjector"
    ),
}


def secret_of(certificates: str) -> str:
    """The Secret that holds what is served."""
    return MOUNTED if certificates == "cert-manager" else SECRET


def ca_bundle(facts: Facts) -> Iterator[Finding]:
    """Each entry has a bundle, all have the same, and something in it is valid."""
    bundles = _bundles(facts)
    who = _mended(facts)
    if not bundles:
        return  # said by the check of the registration
    empty = sorted(place for place, found in bundles.items() if not found)
    for place in empty:
        yield fail(CA_BUNDLE, f"{place} trusts nobody: its caBundle is empty", who)
    broken = {p: f for p, f in bundles.items() if f and not _valid(f, facts.now)}
    for place in sorted(broken):
        why = "cannot be read" if not bundle.parse(broken[place]).authorities else "has expired"
        yield fail(CA_BUNDLE, f"{place}: its caBundle {why}", who)
    filled = set(bundles.values()) - {b""}
    if len(filled) > 1:
        yield fail(CA_BUNDLE, "the entries do not all have the same caBundle", who)
    elif filled and not empty and not broken:
        (same,) = filled
        ends = max(each.not_valid_after_utc for each in _valid(same, facts.now))
        yield ok(CA_BUNDLE, f"the same in every entry, until {ends:%Y-%m-%d}")


def certificate(facts: Facts) -> Iterator[Finding]:
    """What is served is valid, has the name that the API server calls, and is trusted by each entry."""
    name = secret_of(facts.certificates)
    if isinstance(facts.secret, Unread):
        yield unread(CERTIFICATE, facts.secret)
        return
    chain = _certificates((facts.secret or {}).get(stored.LEAF, b""))
    if not chain:
        state = "does not exist" if facts.secret is None else f"holds no {stored.LEAF}"
        yield fail(
            CERTIFICATE,
            f"the Secret {facts.namespace}/{name} {state}: nothing can be served",
            _mended(facts),
        )
        return
    problems = list(_problems(facts, chain))
    yield from problems
    if not problems:
        ends = chain[0].not_valid_after_utc
        yield ok(CERTIFICATE, f"valid until {ends:%Y-%m-%d}, and trusted by every entry")


def _mended(facts: Facts) -> str:
    return _MENDED[facts.certificates].format(namespace=facts.namespace)


def _problems(facts: Facts, chain: Sequence[x509.Certificate]) -> Iterator[Finding]:
    leaf, now, who = chain[0], facts.now, _mended(facts)
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now >= ends:
        yield fail(CERTIFICATE, f"expired on {ends:%Y-%m-%d %H:%M} UTC", who)
    elif now < begins:
        yield fail(
            CERTIFICATE,
            f"not valid before {begins:%Y-%m-%d %H:%M} UTC",
            "compare the clocks of the nodes with this machine's",
        )
    elif now >= begins + (ends - begins) * LATE:
        yield warn(
            CERTIFICATE,
            f"ends on {ends:%Y-%m-%d %H:%M} UTC and should have been renewed by now",
            who,
        )
    host = names_of(facts.namespace)[0]
    if host not in _names(leaf):
        yield fail(CERTIFICATE, f"it is not for {host}, which the API server calls", who)
    for place, found in sorted(_bundles(facts).items()):
        if found and not _is_trusted(chain, _valid(found, now)):
            yield fail(CERTIFICATE, f"{place} does not trust it: not of its caBundle", who)


def _bundles(facts: Facts) -> Mapping[str, bytes]:
    """By entry; without those of configurations that are missing."""
    return {
        configuration.place(name or UNREAD): found
        for configuration in CONFIGURATIONS
        if (obj := of(facts, configuration)) is not None
        for name, found in injection.bundles(obj).items()
    }


def _valid(found: bytes, now: datetime) -> Sequence[x509.Certificate]:
    return bundle.valid(bundle.parse(found).authorities, now)


def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    """The leaf, and what was sent with it."""
    read = (bundle.read_certificate(block) for block in bundle.BLOCK.findall(pem))
    return [each for each in read if each is not None]


def _names(leaf: x509.Certificate) -> Sequence[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return names.value.get_values_for_type(x509.DNSName)


def _is_trusted(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether the leaf leads to one of them, by way of what is sent with it."""
    current = chain[0]
    for _ in chain:
        if bundle.issuer_of(current, authorities) is not None:
            return True
        issuer = bundle.issuer_of(current, chain[1:])
        if issuer is None:
            return False
        current = issuer
    return False
