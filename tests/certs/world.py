"""A cluster as the certificates see it: a Secret, two webhook configurations, replicas, writers, faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.x509 import verification

from certs import bundle, rotation, stored
from certs.rotation import Action, Observed, Publish, Settings, Step, Write

HOST = "stationmaster.stationmaster-system.svc"
START = datetime(2026, 1, 1, tzinfo=UTC)
PLACES = ("mutating/00-stationmaster/trainjobs", "validating/stationmaster/trainjobs")
SETTINGS = Settings(names=(HOST,))


def is_verified(leaf: bytes, published: bytes, now: datetime) -> bool:
    """What a verifier says that has nothing in common with our code."""
    authorities = bundle.parse(published).authorities
    if not authorities:
        return False
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store(list(authorities)))
        .time(now)
        .build_server_verifier(x509.DNSName(HOST))
    )
    try:
        verifier.verify(x509.load_pem_x509_certificate(leaf), [])
    except verification.VerificationError:
        return False
    return True


@dataclass
class Place:
    bundle: bytes = b""
    version: int = 0
    is_ours: bool = False
    """Whether nobody has changed it since we last wrote it."""


@dataclass
class World:
    now: datetime = START
    settings: Settings = SETTINGS
    secret: dict[str, bytes] | None = None
    version: int = 0
    places: dict[str, Place] = field(default_factory=lambda: {name: Place() for name in PLACES})
    leaves: dict[bytes, datetime] = field(default_factory=dict)
    """Every leaf that a replica may still serve, and when it ends."""
    log: list[str] = field(default_factory=list)

    # --- what a writer does -------------------------------------------------------------------

    def observed(self) -> Observed:
        return Observed(secret=self.secret, published=self.published())

    def published(self) -> Mapping[str, bytes]:
        return {name: place.bundle for name, place in self.places.items()}

    def versions(self) -> Mapping[str, int]:
        return {name: place.version for name, place in self.places.items()}

    def decide(self) -> Step:
        return rotation.decide(self.observed(), self.now, self.settings)

    def act(self, action: Action) -> None:
        match action:
            case Write():
                self.write(action, self.version)
            case Publish():
                self.publish(action, self.versions())
        self.check()

    def write(self, action: Write, version: int) -> bool:
        if version != self.version:
            return False
        self.log.append(action.reason)
        self.version += 1
        self.secret = dict(action.data)
        if leaf := self.secret.get(stored.LEAF):
            certificate = x509.load_pem_x509_certificate(leaf)
            self.leaves[leaf] = certificate.not_valid_after_utc
        return True

    def publish(self, action: Publish, versions: Mapping[str, int]) -> None:
        for name in action.places:
            place = self.places.get(name)
            if place is None or place.version != versions.get(name):
                continue
            self.log.append("publish")
            place.bundle, place.is_ours = action.bundle, True
            place.version += 1

    def settle(self, *, most: int = 12) -> Step:
        """One writer goes on until there is nothing to do."""
        for _ in range(most):
            step = self.decide()
            if step.action is None:
                return step
            self.act(step.action)
        raise AssertionError(f"no end: {self.log[-most:]}")

    def run(self, duration: timedelta, every: timedelta) -> None:
        """Time goes by, and somebody looks after the certificates."""
        until = self.now + duration
        while self.now < until:
            self.now += every
            self.settle()

    # --- what happens to it -------------------------------------------------------------------

    def tamper(self, name: str, published: bytes | None) -> None:
        """Somebody writes a configuration over, or deletes it."""
        if published is None:
            self.places.pop(name, None)
        else:
            old = self.places.get(name, Place(version=self.version * 1000))
            self.places[name] = Place(bundle=published, version=old.version + 1)
        self.forget()

    def break_secret(self, data: dict[str, bytes] | None) -> None:
        self.version += 1
        self.secret = data
        self.forget()

    def forget(self) -> None:
        """Leaves whose CA was in no other place than the one that is lost: nobody can help them."""
        sources = [place.bundle for place in self.places.values()]
        if self.secret:
            sources.append(self.secret.get(stored.CA, b""))
        known = bundle.union(*(bundle.parse(source).authorities for source in sources))
        self.leaves = {
            leaf: end
            for leaf, end in self.leaves.items()
            if bundle.issuer_of(x509.load_pem_x509_certificate(leaf), known)
        }

    # --- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        """Every leaf that may be served is verified by every bundle that we published."""
        self.leaves = {leaf: end for leaf, end in self.leaves.items() if self.now < end}
        for leaf in self.leaves:
            for name, place in self.places.items():
                if place.is_ours and not is_verified(leaf, place.bundle, self.now):
                    raise AssertionError(f"a leaf is not verified at {name} after {self.log[-8:]}")

    def check_good(self) -> None:
        """All is as it should be."""
        pair, problem = rotation.serving(self.secret, self.now)
        assert problem is None
        assert pair is not None
        assert pair.renew_at() > self.now
        for place in self.places.values():
            assert is_verified(pair.certificate, place.bundle, self.now)
            assert self.secret is not None
            assert place.bundle == self.secret[stored.CA]
        found = stored.read(self.secret or {})
        assert found.signer is not None
        assert found.coming or found.signer.renew_at() > self.now
