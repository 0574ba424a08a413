"""Where the server is, and how it is asked."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx

from . import _version


@dataclass(frozen=True)
class Server:
    """An address with what is needed to be let in. It can be written as JSON: the process that beats needs it too."""

    url: str
    token: str | None
    ca: str | None

    @staticmethod
    def named(url: str | None, token: str | None, ca: str | None, plain_http: bool) -> Server:
        """What the caller did not name is taken from ``TURNWISE_SERVER``, ``TURNWISE_TOKEN`` and so on, as the commands of ``turnwise`` do."""
        env = os.environ
        if url is None:
            url, plain_http = env.get("TURNWISE_SERVER"), plain_http or env.get("TURNWISE_SERVER_PLAIN_HTTP", "").lower() in ("1", "true")
            if url is None:
                raise ValueError("no server is named; give its address, such as http://127.0.0.1:8080, or set TURNWISE_SERVER")
        token = env.get("TURNWISE_TOKEN") if token is None else token
        if token is not None and token.startswith("@"):
            token = Path(token[1:]).read_text().strip()
        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{str(parsed.copy_with(username=None, password=None))!r} is not the address of a server; it begins with https:// or http://")
        if parsed.userinfo or parsed.query or parsed.fragment:
            raise ValueError("the address of a server has no name, password or question mark; give the token as token=…")
        if parsed.scheme == "http" and not _is_loopback(parsed.host) and not plain_http:
            raise ValueError(f"{parsed.host} is another machine, and without TLS the token could be read on the way; use https://, or plain_http=True")
        return Server(str(parsed).rstrip("/"), token or None, ca or env.get("TURNWISE_SERVER_CA"))

    def options(self) -> dict[str, Any]:
        """For httpx. A proxy of the environment is not asked about this machine."""
        headers = {"user-agent": _version.CLIENT.replace(" ", "/")}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        verify: bool | ssl.SSLContext = ssl.create_default_context(cafile=self.ca) if self.ca is not None else True
        return {
            "base_url": self.url + "/api/v1",
            "headers": headers,
            "verify": verify if self.url.startswith("https") else False,
            "trust_env": not _is_loopback(httpx.URL(self.url).host),
        }


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def ahead(response: httpx.Response, now: float) -> float | None:
    """By how many seconds the server's clock is ahead of this machine's: its answers have the time, to the second. A difference of that size is none."""
    try:
        offset = parsedate_to_datetime(response.headers["date"]).timestamp() - now
    except (KeyError, ValueError, TypeError):
        return None
    return offset if abs(offset) > 2 else 0.0
