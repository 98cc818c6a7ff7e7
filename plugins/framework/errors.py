"""What can go wrong, as a tree.

::

    StationmasterError        all that is raised by us
    ├── Fault                 something wrong with us: named, counted, given a defined effect
    │   ├── PluginFault       a plugin raised; carries its name and the extension point
    │   └── DeadlineExceeded  the time that the caller grants is used up
    ├── BuildError            the controller itself would fail to build this job; the text is what it would say
    ├── BadReview             bytes that are no AdmissionReview: HTTP 400
    ├── ConfigError           a profile, an argument or a folder that cannot be used
    └── BadInput              a file that is neither YAML nor JSON, or too large, or too deep

A wrong TrainJob is none of these: it is a ``field.FieldError``, returned, not raised.
"""

from __future__ import annotations


class StationmasterError(Exception):
    """Base of all that is raised by Stationmaster."""


class Fault(StationmasterError):
    """Something wrong with us, not with the object."""


class PluginFault(Fault):
    """A plugin raised where it should have returned a finding."""

    def __init__(self, plugin: str, point: str, cause: BaseException) -> None:
        """Name the plugin and the extension point; the cause's text may hold user values, so only its type."""
        super().__init__(f"plugin {plugin} failed in {point}: {type(cause).__name__}")
        self.plugin = plugin
        self.point = point


class DeadlineExceeded(Fault):
    """The time that the caller grants for this request is used up."""


class BuildError(StationmasterError):
    """The controller would fail on this job in every reconcile; the text says with what."""


class BadReview(StationmasterError):
    """The body is not an AdmissionReview that could be answered."""


class ConfigError(StationmasterError):
    """The profile, the arguments or the folder given cannot be used; the text says where and why."""


class BadInput(StationmasterError):
    """A document that cannot be read: syntax, size, depth or a repeated key."""
