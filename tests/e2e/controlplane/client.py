"""A small client of the API server: no models, no retries, and the warnings kept.

The tests ask with ``kubectl`` where it matters what a user sees; for everything around it a process
a request would be slow.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final

Object = dict[str, Any]

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

TIMEOUT_SECONDS: Final = 60.0
FIELD_MANAGER: Final = "e2e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What the API server answered."""

    status: int
    headers: Message
    body: bytes

    @property
    def warnings(self) -> list[str]:
        """The texts of its warnings, as kubectl prints them."""
        texts = [header.split(" ", 2)[2] for header in self.headers.get_all("Warning", [])]
        return [json.loads(text) if text.startswith('"') else text for text in texts]

    def json(self) -> Object:
        """The body."""
        decoded: Object = json.loads(self.body)
        return decoded

    def checked(self) -> Response:
        """Itself, unless it is an error. Raises ApiError then."""
        if self.status >= 400:
            raise ApiError(self)
        return self


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, response: Response) -> None:
        """Keep the answer; the message is the server's."""
        self.response = response
        self.status = response.status
        said: Object = {"message": response.body.decode(errors="replace")}
        with suppress(ValueError):
            said = response.json()
        self.reason: str = said.get("reason", "")
        self.message: str = said.get("message", "")
        self.causes: list[Object] = (said.get("details") or {}).get("causes") or []
        super().__init__(f"{response.status} {self.reason}: {self.message}")


class Client:
    """Talks to the API server as one user."""

    def __init__(self, port: int, ca: bytes, token: str) -> None:
        """Connect later; nothing is sent here."""
        self._port = port
        self._tls = ssl.create_default_context(cadata=ca.decode())
        self._token = token
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self,
        method: str,
        path: str,
        body: Object | list[Any] | None = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request. An answer of any status is returned, not raised."""
        if query:
            path = f"{path}?{urllib.parse.urlencode(query)}"
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, context=self._tls, timeout=TIMEOUT_SECONDS
        )
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return Response(status=answer.status, headers=answer.headers, body=answer.read())
        finally:
            connection.close()

    def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """POST the object."""
        path = self.collection(obj["apiVersion"], obj["kind"], _namespace(obj))
        query = {"dryRun": "All"} if dry_run else {}
        return self.request("POST", path, obj, query=query).checked().json()

    def apply(self, obj: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Apply it server-side, by force."""
        query = {"fieldManager": manager, "force": "true"}
        answer = self.request("PATCH", self.path_of(obj), obj, content_type=APPLY, query=query)
        return answer.checked().json()

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object:
        """GET one object. Raises ApiError (404) where there is none."""
        path = f"{self.collection(api_version, kind, namespace)}/{name}"
        return self.request("GET", path).checked().json()

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        """GET one object, or None."""
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def list(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = ""
    ) -> list[Object]:
        """List objects; their apiVersion and kind are filled in."""
        query = {"labelSelector": labels} if labels else {}
        path = self.collection(api_version, kind, namespace)
        items = self.request("GET", path, query=query).checked().json()["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def merge(self, obj: Object, change: Object, *, subresource: str = "") -> Object:
        """Change an object by a JSON merge patch."""
        path = self.path_of(obj) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, change, content_type=MERGE).checked().json()

    def delete(self, obj: Object, *, propagation: str = "Background") -> None:
        """DELETE the object; nothing if it is gone."""
        answer = self.request("DELETE", self.path_of(obj), {"propagationPolicy": propagation})
        if answer.status != http.HTTPStatus.NOT_FOUND:
            answer.checked()

    def path_of(self, obj: Object) -> str:
        """The path of one object."""
        collection = self.collection(obj["apiVersion"], obj["kind"], _namespace(obj))
        return f"{collection}/{obj['metadata']['name']}"

    def collection(self, api_version: str, kind: str, namespace: str = "") -> str:
        """The path of all objects of a kind, in a namespace or everywhere."""
        plural, namespaced = self._resource(api_version, kind)
        group = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return (
            f"{group}/namespaces/{namespace}/{plural}"
            if namespaced and namespace
            else f"{group}/{plural}"
        )

    def _resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._resources:
            group = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            for found in self.request("GET", group).checked().json()["resources"]:
                if "/" not in found["name"]:
                    known = found["name"], found["namespaced"]
                    self._resources[api_version, found["kind"]] = known
        try:
            return self._resources[api_version, kind]
        except KeyError:
            raise LookupError(f"the API server does not serve {api_version} {kind}") from None


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace") or "")
