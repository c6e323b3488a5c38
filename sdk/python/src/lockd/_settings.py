"""What a client is told when it is made."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import grpc

from lockd.errors import Invalid, Unauthenticated, Unavailable
from lockd.v1 import session_service_pb2 as pb

from . import _check, _clock

DEFAULT_PORT = 7420
ACTOR_BYTES = 128
_NAME_BYTES, _LABELS, _LABEL_BYTES = 128, 32, 256
_TOKEN_BYTES = 12 << 10  # gRPC's servers take headers of 16 KiB together


@dataclass(frozen=True)
class Status:
    """The relation of a client with the server, as told to `on_status`."""

    state: str
    """CONNECTED: a session was opened, or goes on. DISCONNECTED: it ended, and its locks with it. INTERRUPTED: the
    stream broke or is silent; until it is CONNECTED again each lock is held until its own deadline. DRAINING: the
    session goes on at another replica. AT_RISK: the server cannot renew leases at the moment. SAFE: it can again."""
    session: str = ""
    """The id of the session, with CONNECTED."""
    valid_for: float = 0
    """How long all locks are still surely held, in seconds, with AT_RISK."""
    error: Exception | None = None
    """Why, with DISCONNECTED and INTERRUPTED."""
    ttl: float = 0
    """Of which session it is: the TTL that `with_ttl` or `session_ttl` asked for, 0 if neither did."""


@dataclass(frozen=True)
class TLS:
    """How to speak TLS to the server: paths of PEM files. Without any, the system's authorities are trusted, and no
    certificate is shown. The files are read again for each connection."""

    ca_cert: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    """The name expected in the server's certificate, instead of the host of the address."""

    def credentials(self) -> grpc.ChannelCredentials:
        """What gRPC wants. Raises OSError if a file cannot be read."""
        if bool(self.cert) != bool(self.key):
            raise Invalid("certificate and key for TLS need each other")
        return grpc.ssl_channel_credentials(
            *(_read(path) if path else None for path in (self.ca_cert, self.key, self.cert))
        )


@dataclass
class Settings:
    """All of them. Times are in seconds."""

    targets: list[str]
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    session_ttl: float | None = None
    answer_timeout: float = 5.0
    connect_wait: float | None = None
    actor: str = ""
    fail_on_deadlock: bool = False
    release_on_disconnect: bool = False
    tls: TLS | None = None
    token_file: str = ""
    on_status: Callable[[Status], object] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.labels, Mapping):
            raise TypeError(f"labels must be a dict of texts, not {type(self.labels).__name__}")
        if len(self.labels) > _LABELS:
            raise Invalid(f"labels must be at most {_LABELS}, not {len(self.labels)}", reason="INVALID_CLIENT")
        for key, value in self.labels.items():
            for text in (key, value):
                _check.text("INVALID_CLIENT", "each of labels", text)
            _check.text("INVALID_CLIENT", "each of labels, with its value,", key + value, _LABEL_BYTES)
        _check.text("INVALID_CLIENT", "name", self.name, _NAME_BYTES)
        _check.text("INVALID_ACTOR", "actor", self.actor, ACTOR_BYTES)
        _check.text("INVALID_CLIENT", "token_file", self.token_file)
        _check.seconds("answer_timeout", self.answer_timeout, positive=True)
        for what, length in (("session_ttl", self.session_ttl), ("connect_wait", self.connect_wait)):
            if length is not None:
                _check.seconds(what, length, positive=what == "session_ttl")
        _check.flag("fail_on_deadlock", self.fail_on_deadlock)
        _check.flag("release_on_disconnect", self.release_on_disconnect)
        if self.on_status is not None:
            _check.function("on_status", self.on_status)
        if self.tls is not None and not isinstance(self.tls, TLS):
            raise TypeError(f"tls must be a lockd.TLS, not {type(self.tls).__name__}")

    def wishes(self) -> pb.Open:
        """What the server is told."""
        o = pb.Open(client_name=self.name, labels=self.labels, actor=self.actor)
        o.features.extend([pb.FEATURE_BATCH, pb.FEATURE_RESUME])
        if self.session_ttl:
            _clock.put(o.session_ttl, self.session_ttl)
        if self.release_on_disconnect:
            o.on_disconnect = pb.ON_DISCONNECT_RELEASE
        if self.fail_on_deadlock:
            o.deadlock = pb.DEADLOCK_POLICY_FAIL
        return o

    def channel(self, target: str) -> grpc.Channel:
        """A connection of its own, which connects when it is used. It reads the files of TLS."""
        options: list[tuple[str, int | str]] = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.service_config_disable_resolution", 1),  # it would be asked of DNS before each connection
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.bdp_probe", 0),  # a ping for each frame of data costs more than the data
            ("grpc.max_receive_message_length", 16 << 20),  # Opened tells of all holds of a session that goes on
        ]
        if self.tls is None:
            return grpc.insecure_channel(target, options)
        if self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        return grpc.secure_channel(target, self.tls.credentials(), options)

    def metadata(self, target: str) -> list[tuple[str, str]]:
        """What is shown to the server. The file of the token is read for each stream, so it may be renewed. Nothing of
        the token is ever in an error."""
        if not self.token_file:
            return []
        if self.tls is None and not _local(target):
            raise Unauthenticated("a token is not sent in clear text to another machine: this needs TLS")
        try:
            token = _read(self.token_file).decode("ascii", "replace").strip()
        except OSError as e:
            raise Unavailable(f"the token file: {e}") from e
        if not token or len(token) > _TOKEN_BYTES or any(not "!" <= c <= "~" for c in token):
            raise Unavailable(f"the token file {self.token_file}: it is empty, too long, or not a token")
        return [("authorization", "Bearer " + token)]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _local(target: str) -> bool:
    """Whether what is sent to an address surely stays on this machine."""
    if target.startswith("unix:"):
        return True
    host = target.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def addresses(given: str | Sequence[str]) -> list[str]:
    """Reads addresses: HOST:PORT or HOST, separated by commas or in a list. What names a scheme of gRPC, such as
    dns:///HOST:PORT, is left as it is."""
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise TypeError(f"addresses must be a str or a list of them, not {type(given).__name__}")
    if not given:
        raise Invalid("addresses must not be empty", reason="INVALID_ADDRESS")
    texts = [given] if isinstance(given, str) and _has_scheme(given) else given
    texts = texts.split(",") if isinstance(texts, str) else list(texts)
    for text in texts:
        _check.text("INVALID_ADDRESS", "each of addresses", text)
    return [text if _has_scheme(text) else _address(text.strip()) for text in texts]


def _has_scheme(text: str) -> bool:
    return text.partition(":")[0] in ("dns", "unix", "ipv4", "ipv6", "xds", "unix-abstract")


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    try:
        bare = ipaddress.ip_address(text.strip("[]"))
        return f"[{bare}]:{DEFAULT_PORT}" if bare.version == 6 else f"{bare}:{DEFAULT_PORT}"
    except ValueError:
        pass
    if not colon:
        host, port = text, str(DEFAULT_PORT)
    odd = not host or any(c in host for c in " \t/?#@") or (":" in host and not host.startswith("["))
    if odd or not port.isdecimal() or not 0 < int(port) < 65536:
        raise Invalid(f"address {text!r}: it is not HOST or HOST:PORT", reason="INVALID_ADDRESS")
    return f"{host}:{port}"


def token_file_from_env() -> str:
    """The path in LOCKD_TOKEN_FILE, empty if there is none."""
    return os.environ.get("LOCKD_TOKEN_FILE", "")


def tls_from_env() -> TLS | None:
    """What LOCKD_TLS, LOCKD_CACERT, LOCKD_CERT, LOCKD_KEY and LOCKD_SERVER_NAME say, as lockctl reads them. None if TLS
    is not to be spoken."""
    env = os.environ
    tls = TLS(*(env.get("LOCKD_" + key, "") for key in ("CACERT", "CERT", "KEY", "SERVER_NAME")))
    wanted = env.get("LOCKD_TLS", "")
    if wanted.lower() not in ("", "1", "0", "t", "f", "true", "false"):
        raise Invalid(f"LOCKD_TLS is {wanted!r}, must be true or false")
    if wanted.lower() in ("0", "f", "false") or (not wanted and tls == TLS()):
        return None
    return tls
