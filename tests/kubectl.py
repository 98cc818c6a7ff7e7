"""What kubectl prints of an answer, as it was seen with kubectl 1.36 (webhook-server A.2)."""

from __future__ import annotations

from tests.builders import Json

WEBHOOK = "mutate.stationmaster.dev"


def printed(review: Json, file: str, created: str = "") -> str:
    """Warnings first, then what was created, or the refusal: what is shown depends on the reason alone."""
    response = review["response"]
    lines = [f"Warning: {text}" for text in response.get("warnings", [])]
    if response["allowed"]:
        return "\n".join([*lines, f"{created} created"])
    status = response["status"]
    if status["reason"] != "Invalid":
        head = f'Error from server ({status["reason"]}): error when creating "{file}"'
        return "\n".join(
            [
                *lines,
                f'{head}: admission webhook "{WEBHOOK}" denied the request: {status["message"]}',
            ]
        )
    details = status["details"]
    subject = f'The {details["kind"]} "{details.get("name", "")}" is invalid: '
    causes = [f"{c.get('field', '')}: {c['message']}" for c in details["causes"]]
    if len(causes) == 1:
        return "\n".join([*lines, subject + causes[0]])
    return "\n".join([*lines, subject, *(f"* {cause}" for cause in causes)])
