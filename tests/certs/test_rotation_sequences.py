"""Any order of time, faults and two writers that do not wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from certs import rotation, stored
from certs.rotation import Action, Observed, Publish, Write
from tests.certs.world import PLACES, World

STEPS = st.sampled_from(
    [
        *[timedelta(seconds=5), timedelta(seconds=61), timedelta(hours=2)],
        *[timedelta(days=days) for days in (1, 11, 21, 31, 125, 250, 400)],
    ]
)
WRITERS = st.sampled_from(["a", "b"])
PLACE = st.sampled_from(PLACES)
PART = st.sampled_from([stored.CA, stored.CA_KEY, stored.NEXT_KEY, stored.LEAF, stored.LEAF_KEY])


@dataclass
class Writer:
    published: Mapping[str, bytes] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    version: int = -1
    action: Action | None = None


class Certificates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.writers = {"a": Writer(), "b": Writer()}
        self.earlier = [b""]

    @initialize(installed=st.booleans())
    def begin(self, *, installed: bool) -> None:
        if installed:
            self.world.settle()

    # --- two writers, each in three parts, any of which may be its last for a long time --------

    @rule(name=WRITERS)
    def read_configurations(self, name: str) -> None:
        self.writers[name] = Writer(
            published=self.world.published(), versions=self.world.versions()
        )

    @rule(name=WRITERS)
    def read_secret_and_decide(self, name: str) -> None:
        writer, world = self.writers[name], self.world
        observed = Observed(secret=world.secret, published=writer.published)
        writer.version = world.version
        writer.action = rotation.decide(observed, world.now, world.settings).action

    @rule(name=WRITERS)
    def act(self, name: str) -> None:
        writer, world = self.writers[name], self.world
        # Who makes a Secret where there is none has no version to be held to, only its Lease, which it
        # confirms first: nobody has published anything since it looked.
        is_alone = world.secret is not None or writer.versions == world.versions()
        match writer.action:
            case Write() if is_alone:
                world.write(writer.action, writer.version)
            case Publish():
                world.publish(writer.action, writer.versions)
                self.earlier.append(writer.action.bundle)
            case _:
                pass
        self.writers[name] = Writer()

    @rule()
    def one_writer_does_its_work(self) -> None:
        self.world.settle()

    # --- time and faults ----------------------------------------------------------------------

    @rule(step=STEPS)
    def time_passes(self, step: timedelta) -> None:
        self.world.now += step

    @rule(step=STEPS)
    def time_passes_while_somebody_looks(self, step: timedelta) -> None:
        self.world.run(step, step / 4)

    @rule()
    def the_secret_is_deleted(self) -> None:
        self.world.break_secret(None)

    @rule(part=PART, left=st.sampled_from([None, 0, 40, 200]))
    def a_part_of_the_secret_is_broken(self, part: str, left: int | None) -> None:
        if self.world.secret and part in self.world.secret:
            data = dict(self.world.secret)
            if left is None:
                del data[part]
            else:
                data[part] = data[part][:left]
            self.world.break_secret(data)

    @rule(place=PLACE)
    def a_bundle_is_wiped(self, place: str) -> None:
        self.world.tamper(place, b"")

    @rule(place=PLACE, data=st.data())
    def a_bundle_is_reset_to_an_earlier_one(self, place: str, data: Any) -> None:
        self.world.tamper(place, data.draw(st.sampled_from(self.earlier)))

    @rule(place=PLACE)
    def a_configuration_goes(self, place: str) -> None:
        self.world.tamper(place, None)

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def every_leaf_is_verified_by_every_published_bundle(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Left alone, all becomes good, and stays."""
        for place in PLACES:
            if place not in self.world.places:
                self.world.tamper(place, b"")
        self.world.settle()
        self.world.now += self.world.settings.settle
        self.world.settle()
        self.world.check_good()
        assert self.world.decide().action is None


TestCertificates = Certificates.TestCase
TestCertificates.settings = hypothesis.settings(
    max_examples=40,
    stateful_step_count=30,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
