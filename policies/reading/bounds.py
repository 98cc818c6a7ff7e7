"""How long and how many: the bounds of every part of a document, for reading and for the CRDs alike.

What ValidatingAdmissionPolicy bounds has its number here too (``admissionregistration/validation``: 64 match conditions,
20 audit annotations). The others keep a document within what one review can afford, and within the API server's
cost estimate of the CRDs' own CEL rules, which multiplies them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MOST_ERRORS: Final = 256
"""Mistakes after which a document is wrong enough."""

LONGEST_EXPRESSION: Final = 4096
"""Bytes of a CEL expression."""
LONGEST_NAME: Final = 63
"""Of rules, match conditions, variables, and of keys of audit annotations."""
LONGEST_OBJECT_NAME: Final = 253
LONGEST_GLOB: Final = 1024
"""Bytes of a pattern over names, users or images; an image reference has at most some 400."""
LONGEST_TEXT: Final = 1024
"""Bytes of a message, a fix, a reason."""
LONGEST_OWNER: Final = 253
LONGEST_KEY: Final = 316
"""Of labels and annotations: 253 of the prefix, a slash, 63 of the name."""
LONGEST_LABEL_VALUE: Final = 63
LONGEST_DURATION: Final = 32

MOST_MATCH_CONDITIONS: Final = 64
MOST_VARIABLES: Final = 64
MOST_LIMITS: Final = 64
MOST_VALIDATIONS: Final = 64
MOST_RULES: Final = MOST_LIMITS + MOST_VALIDATIONS
MOST_AUDIT_ANNOTATIONS: Final = 20
MOST_STAGES: Final = 16
MOST_RUNTIMES: Final = 64
MOST_GLOBS: Final = 64
MOST_REQUIRED_KEYS: Final = 64
MOST_REQUIREMENTS: Final = 32
MOST_SELECTED_LABELS: Final = 32
MOST_SELECTED_VALUES: Final = 64
MOST_POLICIES: Final = 16
"""Policies that one PolicyException may name."""

MOST_PARAMS_BYTES: Final = 32 * 1024
"""Of ``params.value`` or ``params.default`` as JSON."""
DEEPEST_PARAMS: Final = 16

LEAST_PRIORITY: Final = -(2**31)
MOST_PRIORITY: Final = 2**31 - 1
MOST_COUNT: Final = 2**31 - 1
"""Of nodes and pods; the Trainer's own numbers are int32."""
LONGEST_EXCEPTION: Final = timedelta(hours=87_600)
"""Ten years: what is longer is no exception."""
