"""A small client of the API server: the ``kubernetes`` package logs in, we send and read.

Its models cost more than all we do with an answer, and its watch cannot take objects of 2 MiB. So: its
configuration, authentication and TLS; JSON by orjson over an aiohttp session of ours. The package is imported
when a cluster is asked for, not before: it takes half a second.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import aiohttp
import orjson

from plugins.framework import values
from plugins.framework.errors import ConfigError, StationmasterError

if TYPE_CHECKING:
    from kubernetes.aio.client.configuration import Configuration

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
"""The content type of every PATCH of ours."""

CONNECT_SECONDS: Final = 5.0
CALL_SECONDS: Final = 30.0
"""For one page of a list; an API server that has just started is slow."""
LOGIN_SECONDS: Final = 30.0
"""For programs that a kubeconfig names, which may ask their own server."""
LOGIN_PAUSE_SECONDS: Final = 10.0
"""Between two logins because of 401: one that is refused for good is not asked more often."""
LONGEST_MESSAGE: Final = 200

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Query: TypeAlias = Mapping[str, str]
Decode: TypeAlias = Callable[[bytes], Any]
"""Bytes -> JSON value. Raises ValueError."""
Login: TypeAlias = Callable[[], Awaitable["Configuration"]]


class ApiError(StationmasterError):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep what decides; the message is the server's, cut."""
        super().__init__(f"{status} {reason}: {message[:LONGEST_MESSAGE]}")
        self.status = status


class Unreachable(StationmasterError):
    """No answer, or none that can be read."""


class Tried(NamedTuple):
    """What the API server would have done."""

    status: int
    said: Mapping[str, Any]
    """The object as it would be, or the Status of the refusal, whole."""


class Requests(Protocol):
    """What the caches need of an API server."""

    async def get(
        self,
        path: str,
        query: Query | None = None,
        *,
        accept: str = JSON,
        seconds: float = ...,
        decode: Decode = ...,
    ) -> Any:
        """GET and decode. Raises ApiError or Unreachable."""

    def stream(self, path: str, query: Query, *, accept: str, silence_seconds: float) -> Any:
        """A context manager of chunks of bytes. Raises ApiError or Unreachable; TimeoutError on silence."""


def in_cluster(account: Path = _ACCOUNT, environ: Mapping[str, str] | None = None) -> Login:
    """Log in as the pod's service account; the token is read again every minute."""

    async def login() -> Configuration:
        config, configuration = await asyncio.to_thread(_library)
        loader = config.incluster_config.InClusterConfigLoader(
            token_filename=str(account / "token"),
            cert_filename=str(account / "ca.crt"),
            environ=os.environ if environ is None else environ,
        )
        made: Configuration = configuration()
        try:
            loader.load_and_set(made)
        except (config.ConfigException, OSError) as error:
            raise ConfigError(f"not in a cluster: {error}") from error
        return made

    return login


def kubeconfig(file: Path, context: str | None = None) -> Login:
    """Log in as a kubeconfig says: tokens, certificates, programs, OIDC."""

    async def login() -> Configuration:
        if not _is_there(file):
            raise ConfigError(f"there is no kubeconfig {file}")
        config, configuration = await asyncio.to_thread(_library)
        made: Configuration = configuration()
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await config.load_kube_config(
                    config_file=str(file),
                    context=context,
                    client_configuration=made,
                    persist_config=False,  # the file is the user's
                )
        except TimeoutError as error:
            raise ConfigError(f"{file}: no login after {LOGIN_SECONDS:.0f} s") from error
        except config.ConfigException as error:
            raise ConfigError(f"{file}: {error}") from error
        except Exception as error:
            # A YAML error quotes the file, and with it secrets.
            raise ConfigError(f"{file}: not a kubeconfig ({type(error).__name__})") from error
        return made

    return login


def _is_there(file: Path) -> bool:
    """Whether one of them is, as KUBECONFIG may have several; the library would print what is missing."""
    return any(Path(each).exists() for each in str(file).split(os.pathsep))


def _library() -> tuple[Any, Any]:
    from kubernetes.aio import config  # noqa: PLC0415  # half a second
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.aio.config import incluster_config  # noqa: F401, PLC0415

    return config, Configuration


class _Request(NamedTuple):
    """What is sent, and sent once more after a login."""

    method: str
    path: str
    limits: aiohttp.ClientTimeout
    query: Query
    accept: str = JSON
    body: bytes | None = None

    def headers(self) -> dict[str, str]:
        headers = {"Accept": self.accept, "User-Agent": "stationmaster"}
        if self.body is not None:
            headers["Content-Type"] = JSON_PATCH if self.method == "PATCH" else JSON
        return headers


class Client:
    """The API server, as one user. Logs in anew when it is told that a login has ended."""

    def __init__(self, login: Login, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; ``connect`` logs in."""
        self._login = login
        self._clock = clock
        self._lock = asyncio.Lock()
        self._configuration: Configuration | None = None
        self._session: aiohttp.ClientSession | None = None
        self._logged_in_at = 0.0
        self.sent_credentials: bool | None = None
        """Whether the last request that left carried a token, as seen on its way out; None before one did."""
        self._date = ""

    @property
    def host(self) -> str:
        """The API server's address."""
        return self._configured().host

    async def connect(self) -> None:
        """Log in. Raises ConfigError where that fails, or gives nothing to show to the API server."""
        self._configuration = configuration = await self._login()
        self._logged_in_at = self._clock()
        if not _needs_none(configuration) and not await _token(configuration):
            raise ConfigError(_NO_CREDENTIALS)
        old, self._session = self._session, self._open(configuration)
        if old is not None:
            await old.close()

    async def self_test(self) -> None:
        """Ask for the version, and see that the credentials really left with it (kubernetes-client #2584).

        Raises ConfigError where they did not. An API server that does not answer is no reason to end.
        """
        with suppress(ApiError, Unreachable):  # the caches say so, again and again
            await self.get("/version", seconds=CONNECT_SECONDS)
        configuration = self._configured()
        if self.sent_credentials is False and not _needs_none(configuration):
            raise ConfigError(_NO_CREDENTIALS)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def get(
        self,
        path: str,
        query: Query | None = None,
        *,
        accept: str = JSON,
        seconds: float = CALL_SECONDS,
        decode: Decode = orjson.loads,
    ) -> Any:
        """GET and decode. Raises ApiError or Unreachable."""
        request = _Request("GET", path, _within(seconds), query or {}, accept)
        return await self._decoded(request, decode)

    async def send(self, method: str, path: str, body: Any) -> Any:
        """Write and decode the object as it is now; a PATCH is a JSON Patch. Raises ApiError or Unreachable."""
        data = orjson.dumps(body)
        return await self._decoded(_Request(method, path, _within(CALL_SECONDS), {}, body=data))

    def server_time(self) -> datetime | None:
        """What time it was for the API server when it answered last, if it said so."""
        try:
            said = parsedate_to_datetime(self._date)
        except ValueError:
            return None
        return said.replace(tzinfo=UTC) if said.tzinfo is None else said

    async def try_create(self, path: str, body: Any) -> Tried:
        """POST as a dry run, through admission and without a trace; a refusal is an answer. Raises Unreachable."""
        query = {"dryRun": "All"}
        request = _Request("POST", path, _within(CALL_SECONDS), query, body=orjson.dumps(body))
        try:
            response = await self._answer(request)
            async with response:
                return Tried(response.status, values.obj(_json(await response.read())))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(_why(error)) from error

    async def _decoded(self, request: _Request, decode: Decode = orjson.loads) -> Any:
        try:
            response = await self._request(request)
            async with response:
                return decode(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(_why(error)) from error
        except ValueError as error:
            raise Unreachable("the answer is not JSON") from error

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, *, accept: str, silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Chunks of an answer that goes on. Raises ApiError or Unreachable; TimeoutError on silence."""
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        try:
            try:
                response = await self._request(_Request("GET", path, limits, query, accept))
            except TimeoutError as error:
                raise Unreachable(_why(error)) from error  # not the silence of an open watch
            try:
                yield response.content.iter_any()
            finally:
                response.close()
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(_why(error)) from error

    async def _request(self, request: _Request) -> aiohttp.ClientResponse:
        response = await self._answer(request)
        if response.status >= 400:
            async with response:
                raise _error(response.status, await response.content.read(64 * 1024))
        return response

    async def _answer(self, request: _Request) -> aiohttp.ClientResponse:
        used = self._configured()
        response = await self._send(request)
        if response.status == 401 and await self._logged_in_anew(used):
            response.close()
            response = await self._send(request)
        return response

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        configuration, session = self._configured(), self._session
        if session is None:
            raise Unreachable("not connected")
        headers = request.headers()
        token = await _token(configuration)
        if token:
            headers["Authorization"] = token
        response = await session.request(
            request.method,
            f"{configuration.host.rstrip('/')}{request.path}",
            params=dict(request.query),
            data=request.body,
            headers=headers,
            timeout=request.limits,
            allow_redirects=False,  # the token is for this server only
            server_hostname=configuration.tls_server_name or None,
            proxy=configuration.proxy or None,
            proxy_headers=configuration.proxy_headers or None,
        )
        self._date = response.headers.get("Date", "")
        return response

    def _configured(self) -> Configuration:
        if self._configuration is None:
            raise Unreachable("not connected")
        return self._configuration

    async def _logged_in_anew(self, used: Configuration) -> bool:
        """After a 401: whether there is another login to try with."""
        async with self._lock:
            if self._configuration is not used:
                return True  # somebody else did
            if self._clock() < self._logged_in_at + LOGIN_PAUSE_SECONDS:
                return False
            self._logged_in_at = self._clock()
            try:
                made = await self._login()
            except ConfigError as error:
                raise Unreachable(f"cannot log in anew: {error}") from error
            same = _transport(made) == _transport(used) and not made.cert_file
            self._configuration = made
            if not same and self._session is not None:
                # Ends the watches too; each goes on from where it was.
                old, self._session = self._session, self._open(made)
                await old.close()
            return True

    def _open(self, configuration: Configuration) -> aiohttp.ClientSession:
        from kubernetes.aio.client.rest import RESTClientObject  # noqa: PLC0415  # loaded by the login

        try:
            tls = RESTClientObject(configuration).ssl_context
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"certificates of the login cannot be used: {error}") from error
        traces = aiohttp.TraceConfig()
        traces.on_request_headers_sent.append(self._on_headers_sent)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),  # as many watches as there are kinds
            trust_env=True,
            trace_configs=[traces],
        )

    async def _on_headers_sent(
        self,
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        sent: aiohttp.TraceRequestHeadersSentParams,
    ) -> None:
        self.sent_credentials = "Authorization" in sent.headers


_NO_CREDENTIALS: Final = (
    "the login gives neither a token nor a client certificate to show to the API server: "
    "the kubeconfig names no user, or this version of the kubernetes package drops it"
)


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))


def _needs_none(configuration: Configuration) -> bool:
    """A client certificate shows itself in TLS; behind plain HTTP is a proxy that logs in for us."""
    return bool(configuration.cert_file) or configuration.host.startswith("http://")


async def _token(configuration: Configuration) -> str:
    """The Authorization header; asking refreshes it where it must be."""
    setting = (await configuration.auth_settings()).get("BearerToken")
    # A file's token may end in a newline, which is no header's.
    return (setting.get("value") or "").strip() if setting else ""


def _transport(configuration: Configuration) -> tuple[object, ...]:
    return (
        configuration.host,
        configuration.ssl_ca_cert,
        configuration.ca_cert_data,
        configuration.cert_file,
        configuration.verify_ssl,
    )


def _json(body: bytes) -> Any:
    """What a server said; None where a proxy said something else."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _error(status: int, body: bytes) -> ApiError:
    said = values.obj(_json(body))
    reason = values.text(said.get("reason")) or "error"
    return ApiError(status, reason, values.text(said.get("message")) or "no message")


def _why(error: BaseException) -> str:
    """What failed, without what was sent."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return "the connection was cut"
    return type(error).__name__
