"""What to do next about the certificates: pure steps, one at a time.

``decide`` is shown the Secret, the published bundles and the clock, and names at most one action. Who
carries it out looks again and asks again, until there is nothing to do. So it may die between any two
actions, and whoever comes next goes on from what it finds.

A rotation, and equally the first installation and the repair of a broken Secret::

    make an authority      its certificate beside the others in ca.crt, its key as next.key
    publish                ca.crt to every webhook configuration
    note, and wait         every API server must have seen that; a minute is generous
    switch                 next.key becomes ca.key and signs a leaf, which the replicas serve
    drop the old           once no leaf of it can be served any more; publish again

At every moment every leaf that a replica may serve is verified by every bundle that we published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from certs import authority, bundle, stored
from certs.authority import AUTHORITY_LIFE, LEAF_LIFE, Algorithm, Authority
from certs.keypair import BACKDATE

if TYPE_CHECKING:
    from certs.keypair import KeyPair
    from certs.stored import Leaf, Stored

SETTLE: Final = timedelta(minutes=1)
"""An API server acts on a changed configuration within about a second."""

CHECK: Final = timedelta(seconds=10)

MOST_SKEW: Final = BACKDATE
"""What is made now must be valid for the verifier now."""

NO_SIGNER: Final = "there is no authority that can sign"
CA_OLD: Final = "the authority is two thirds through its life"
CA_EARLY: Final = "the authority is not valid yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is wanted. Raises ValueError for what would let certificates expire."""

    names: tuple[str, ...]
    """Under which names the API server calls us: ``SERVICE.NAMESPACE.svc``."""

    authority_life: timedelta = AUTHORITY_LIFE
    leaf_life: timedelta = LEAF_LIFE
    settle: timedelta = SETTLE
    check: timedelta = CHECK
    """How often ``decide`` is asked."""

    algorithm: Algorithm = "ecdsa"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not self.names:
            raise ValueError("names: must name what the API server calls")
        if self.settle < timedelta():
            raise ValueError(f"settle: must not be negative: {self.settle}")
        for name in ("check", "leaf_life", "authority_life"):
            if getattr(self, name) <= timedelta():
                raise ValueError(f"{name}: must be positive: {getattr(self, name)}")
        if self.leaf_life > self.authority_life:
            raise ValueError(
                f"leaf_life: must be at most authority_life, {self.authority_life}: {self.leaf_life}"
            )
        if self.check + self.settle >= self.leaf_life / 3:
            raise ValueError(
                "leaf_life: a third of it must be longer than check and settle together, or nobody"
                f" looks in time: {self.leaf_life}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was found. Read the configurations first and the Secret after them: see ``injection``."""

    secret: Mapping[str, bytes] | None
    published: Mapping[str, bytes]
    """The bundle of each webhook, by any name of its own; empty bytes where there is none."""

    verifier_time: datetime | None = None
    """What time it is for the API server, which verifies: its ``Date`` header, if one was seen."""


Reason: TypeAlias = Literal[
    "make authority", "note publication", "withdraw note", "switch", "make leaf", "drop old", "tidy"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Replace the data of the Secret that was read, or create it; a conflict means: look again."""

    reason: Reason
    why: str
    data: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Write the bundle into these webhooks, if they still have what was read."""

    bundle: bytes
    places: tuple[str, ...]


Action: TypeAlias = Write | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do now, if anything, and what a person should know."""

    action: Action | None
    problems: tuple[str, ...] = ()


def decide(observed: Observed, now: datetime, settings: Settings) -> Step:
    """Name the next action."""
    return _Situation.of(observed, now, settings).step()


def serving(data: Mapping[str, bytes] | None, now: datetime) -> tuple[KeyPair | None, str | None]:
    """What a replica should serve of the Secret, or why nothing; keep the last good pair then.

    A half-written Secret (only ``tls.crt``, kubeflow/trainer#2640) is not used, nor is a pair that is
    not valid now, which callers would refuse.
    """
    if not data:
        return None, "there is no Secret yet"
    found = stored.read(data)
    if found.leaf is None:
        return None, "; ".join(found.problems) or "there is no certificate yet"
    pair = found.leaf.pair
    if not pair.is_valid(now):
        return None, f"{stored.LEAF} is valid from {pair.not_before} to {pair.not_after}, not now"
    return pair, None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Situation:
    """Everything that the decision is taken from."""

    observed: Observed
    state: Stored
    """The Secret without what has expired."""
    now: datetime
    settings: Settings

    @classmethod
    def of(cls, observed: Observed, now: datetime, settings: Settings) -> _Situation:
        spare = bundle.union(*(bundle.parse(each).authorities for each in _ordered(observed)))
        found = stored.read(observed.secret or {}, spare)
        state = replace(
            found,
            authorities=bundle.unexpired(found.authorities, now),
            signer=found.signer if found.signer and not _ended(found.signer, now) else None,
            coming=found.coming if found.coming and not _ended(found.coming, now) else None,
            leaf=found.leaf if found.leaf and now < found.leaf.pair.not_after else None,
        )
        return cls(observed=observed, state=state, now=now, settings=settings)

    def step(self) -> Step:
        problems = [*self.state.problems]
        if skew := self._skew():
            problems.append(skew)
        why = self._why_new_authority()
        if why == CA_EARLY and self.observed.verifier_time is None:
            # One wrong clock, and whose is not known: rotating on it would put things wrong for all.
            problems.append(f"{CA_EARLY}: this clock is behind, or its maker's was ahead")
            why = None
        action = self._next(why, may_make=skew is None)
        return Step(action=action, problems=tuple(problems))

    def _next(self, why: str | None, *, may_make: bool) -> Action | None:
        if why and may_make:
            return self._make_authority(why)
        return (
            # What the present authority signed is believed wherever its last leaf is, so this needs
            # not wait for a configuration that cannot be written.
            (self._renew_leaf() if may_make and self._is_present_leaf() else None)
            or self._publish()
            or self._hand_over(may_make=may_make)
            or (self._renew_leaf() if may_make else None)
            or self._drop_old()
            or self._tidy()
        )

    def _skew(self) -> str | None:
        theirs = self.observed.verifier_time
        if theirs is None or abs(theirs - self.now) <= MOST_SKEW:
            return None
        return (
            f"this clock says {self.now:%Y-%m-%d %H:%M}, the API server's {theirs:%Y-%m-%d %H:%M}:"
            " no certificate is made until they agree"
        )

    # --- the steps, in their order ------------------------------------------------------------

    def _why_new_authority(self) -> str | None:
        signer, coming = self.state.signer, self.state.coming
        if coming:
            return None if coming.is_valid(self.now) else CA_EARLY
        if signer is None:
            return NO_SIGNER
        if not signer.is_valid(self.now):
            return CA_EARLY
        return CA_OLD if self.now >= signer.renew_at() else None

    def _make_authority(self, why: str) -> Write:
        new = authority.create(
            self.now, life=self.settings.authority_life, algorithm=self.settings.algorithm
        )
        authorities = bundle.union(self.state.authorities, [new.certificate])
        state = replace(self.state, authorities=authorities, coming=new, since=None)
        return self._write("make authority", why, state)

    def _publish(self) -> Action | None:
        wanted = bundle.compose(self.state.authorities)
        places = tuple(place for place, found in self.observed.published.items() if found != wanted)
        if not places or not wanted:
            return None
        if self.state.since and self._is_coming_missing():
            state = replace(self.state, since=None)
            return self._write("withdraw note", "a configuration lost the coming authority", state)
        return Publish(bundle=wanted, places=places)

    def _is_coming_missing(self) -> bool:
        coming = self.state.coming
        return coming is not None and any(
            bundle.lacks(found, [coming.certificate]) for found in self.observed.published.values()
        )

    def _hand_over(self, *, may_make: bool) -> Write | None:
        """Note that the coming authority is trusted everywhere, and let it sign after a while."""
        since, now = self.state.since, self.now
        if self.state.coming is None or not self.state.coming.is_valid(now):
            return None
        if not self._is_anybody_trusted():
            return self._switch("nobody else is trusted") if may_make else None
        if since is None or since > now:
            state = replace(self.state, since=now)
            return self._write("note publication", "every configuration trusts it", state)
        if now - since >= self.settings.settle and may_make:
            return self._switch(f"trusted everywhere since {since:%Y-%m-%d %H:%M:%S}")
        return None

    def _is_anybody_trusted(self) -> bool:
        """Whether a leaf of another authority than the coming one may be served with success."""
        coming = self.state.coming
        others = [each for each in self.state.authorities if coming and each != coming.certificate]
        return bool(bundle.valid(others, self.now))

    def _switch(self, why: str) -> Write | None:
        coming, old_leaf = self.state.coming, self.state.leaf
        if coming is None:
            return None
        until = _latest(
            self.state.until,
            self.now + self.settings.leaf_life,
            *([old_leaf.pair.not_after] if old_leaf else []),
        )
        has_old = len(self.state.authorities) > 1
        state = replace(
            self.state,
            signer=coming,
            coming=None,
            leaf=self._issue(coming),
            since=None,
            until=until if has_old else None,
        )
        return self._write("switch", why, state)

    def _renew_leaf(self) -> Write | None:
        signer = self.state.signer
        why = self._why_new_leaf()
        if signer is None or not signer.is_valid(self.now) or why is None:
            return None
        return self._write("make leaf", why, replace(self.state, leaf=self._issue(signer)))

    def _is_present_leaf(self) -> bool:
        leaf, signer = self.state.leaf, self.state.signer
        return bool(leaf and signer and leaf.issuer == signer.certificate)

    def _why_new_leaf(self) -> str | None:
        leaf = self.state.leaf
        if leaf is None:
            return "there is no certificate that can be served"
        if not leaf.pair.is_valid(self.now):
            return "the certificate is not valid yet"
        if self.now >= leaf.pair.renew_at():
            return "the certificate is two thirds through its life"
        if not frozenset(self.settings.names) <= leaf.names():
            return "the certificate lacks a name"
        if not self._is_present_leaf():
            return "the certificate is not the present authority's"
        return None

    def _drop_old(self) -> Write | None:
        old, until = self.state.old, self.state.until
        if self.state.coming or not old:
            return None
        if until is None:
            state = replace(self.state, until=self.now + self.settings.leaf_life)
            return self._write("tidy", "nobody said for how long an old authority stays", state)
        if self.now < until:
            return None
        kept = tuple(each for each in self.state.authorities if each not in old)
        state = replace(self.state, authorities=kept, until=None)
        return self._write("drop old", "no leaf of it is left", state)

    def _tidy(self) -> Write | None:
        """Bring the Secret into its one form: without what has expired, with what was found elsewhere."""
        state = self.state if self.state.old else replace(self.state, until=None)
        if self.observed.secret is None or not state.authorities:
            return None
        written = state.data()
        present = {key: self.observed.secret.get(key) for key in stored.KEYS}
        if present == {key: written.get(key) for key in stored.KEYS}:
            return None
        why = "; ".join(state.problems) or "something in it has expired"
        return self._write("tidy", why, state)

    # --- helpers ------------------------------------------------------------------------------

    def _issue(self, signer: Authority) -> Leaf:
        settings = self.settings
        pair = authority.issue(
            signer,
            settings.names,
            self.now,
            life=settings.leaf_life,
            algorithm=settings.algorithm,
        )
        return stored.leaf_of(pair, signer.certificate)

    def _write(self, reason: Reason, why: str, state: Stored) -> Write:
        return Write(reason=reason, why=why, data=state.data())


def _ordered(observed: Observed) -> Sequence[bytes]:
    return [observed.published[place] for place in sorted(observed.published)]


def _ended(one: Authority, now: datetime) -> bool:
    return now >= one.certificate.not_valid_after_utc


def _latest(first: datetime | None, *others: datetime) -> datetime:
    return max([*([first] if first else []), *others])
