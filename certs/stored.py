"""What the one Secret holds: the authorities to trust, the keys that sign, the pair that is served.

=====================  ========================================================================
``ca.crt``             every CA certificate to be trusted; what the webhook configurations get
``ca.key``             signs; belongs to one of them
``next.key``           will sign, once its CA is trusted everywhere; there only while that lasts
``tls.crt, tls.key``   what every replica serves
``published-since``    when ``next.key``'s CA was first seen in every configuration
``trust-old-until``    until when the CA of no key stays trusted: a replica may still serve its leaf
=====================  ========================================================================

Roles are not written down: a certificate's role follows from whose key it is. Each part is read by
itself, so that a broken one costs no more than itself, and is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs import bundle
from certs.authority import Authority
from certs.keypair import KeyPair, PrivateKey

CA: Final = "ca.crt"
CA_KEY: Final = "ca.key"
NEXT_KEY: Final = "next.key"
LEAF: Final = "tls.crt"
LEAF_KEY: Final = "tls.key"
SINCE: Final = "published-since"
UNTIL: Final = "trust-old-until"
KEYS: Final = (CA, CA_KEY, NEXT_KEY, LEAF, LEAF_KEY, SINCE, UNTIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The serving pair, with what has to be asked of it."""

    pair: KeyPair
    certificate: x509.Certificate
    issuer: x509.Certificate

    def names(self) -> frozenset[str]:
        """Under which names it may be served."""
        try:
            extension = self.certificate.extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            )
        except x509.ExtensionNotFound:
            return frozenset()
        dns = extension.value.get_values_for_type(x509.DNSName)
        return frozenset([*dns, *map(str, extension.value.get_values_for_type(x509.IPAddress))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The Secret, as far as it can be used."""

    authorities: tuple[x509.Certificate, ...] = ()
    signer: Authority | None = None
    coming: Authority | None = None
    leaf: Leaf | None = None
    since: datetime | None = None
    until: datetime | None = None
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def old(self) -> tuple[x509.Certificate, ...]:
        """Those that sign no more, and those that were found without a key."""
        keyed = {
            bundle.fingerprint(each.certificate) for each in (self.signer, self.coming) if each
        }
        return tuple(each for each in self.authorities if bundle.fingerprint(each) not in keyed)

    def data(self) -> dict[str, bytes]:
        """The Secret that says this; PEM is written anew, in one form."""
        written = {CA: bundle.compose(self.authorities)}
        if self.signer:
            written[CA_KEY] = self.signer.key_pem()
        if self.coming:
            written[NEXT_KEY] = self.coming.key_pem()
        if self.leaf:
            written[LEAF] = self.leaf.pair.certificate
            written[LEAF_KEY] = self.leaf.pair.key
        if self.since:
            written[SINCE] = _stamp(self.since)
        if self.until:
            written[UNTIL] = _stamp(self.until)
        return written


def read(data: Mapping[str, bytes], spare: Sequence[x509.Certificate] = ()) -> Stored:
    """Read the Secret's data; ``spare`` is what others trust, for where ``ca.crt`` is not whole."""
    problems: list[str] = []
    parsed = bundle.parse(data.get(CA, b""))
    is_whole = parsed.is_whole and bool(parsed.authorities)
    if not is_whole and data:
        problems.append(f"{CA} is {'broken' if data.get(CA) else 'missing'}")
    authorities = parsed.authorities if is_whole else bundle.union(spare, parsed.authorities)
    return Stored(
        authorities=authorities,
        signer=_authority(data, CA_KEY, authorities, problems),
        coming=_authority(data, NEXT_KEY, authorities, problems),
        leaf=_leaf(data, authorities, problems),
        since=_time(data, SINCE, problems),
        until=_time(data, UNTIL, problems),
        problems=tuple(problems),
    )


def leaf_of(pair: KeyPair, issuer: x509.Certificate) -> Leaf:
    """The leaf of a pair that was signed just now."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    return Leaf(pair=pair, certificate=certificate, issuer=issuer)


def _authority(
    data: Mapping[str, bytes],
    name: str,
    authorities: Sequence[x509.Certificate],
    problems: list[str],
) -> Authority | None:
    if name not in data:
        if name == CA_KEY and data and NEXT_KEY not in data:
            problems.append(f"{name} is missing")
        return None
    key = _key(data[name])
    if key is None:
        problems.append(f"{name} is broken")
        return None
    for certificate in authorities:
        if certificate.public_key() == key.public_key():
            return Authority(certificate=certificate, key=key)
    problems.append(f"{name} belongs to no certificate in {CA}")
    return None


def _leaf(
    data: Mapping[str, bytes], authorities: Sequence[x509.Certificate], problems: list[str]
) -> Leaf | None:
    if LEAF not in data and LEAF_KEY not in data:
        return None
    if LEAF not in data or LEAF_KEY not in data:
        problems.append(f"{LEAF} or {LEAF_KEY} is missing")
        return None
    certificate, key = bundle.read_certificate(data[LEAF]), _key(data[LEAF_KEY])
    if certificate is None or key is None:
        problems.append(f"{LEAF if certificate is None else LEAF_KEY} is broken")
        return None
    if certificate.public_key() != key.public_key():
        problems.append(f"{LEAF_KEY} does not belong to {LEAF}")
        return None
    issuer = bundle.issuer_of(certificate, authorities)
    if issuer is None:
        problems.append(f"{LEAF} is not signed by a certificate in {CA}")
        return None
    return Leaf(pair=KeyPair.of(certificate, key), certificate=certificate, issuer=issuer)


def _key(pem: bytes) -> PrivateKey | None:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) else None


def _time(data: Mapping[str, bytes], name: str, problems: list[str]) -> datetime | None:
    if name not in data:
        return None
    try:
        return datetime.strptime(data[name].decode(), STAMP).replace(tzinfo=UTC)
    except ValueError:  # UnicodeDecodeError is one
        problems.append(f"{name} is not a time")
        return None


STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"


def _stamp(time: datetime) -> bytes:
    return time.astimezone(UTC).strftime(STAMP).encode()
