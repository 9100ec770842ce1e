#!/usr/bin/env python3
"""A client of the API with Python's standard library alone.

  channels.py list                  every channel once: id, time of update and link, separated by tabs
  channels.py card ID               the card of a channel, as JSON
  channels.py link LINK             the same by its public link
  channels.py follow ID [SECONDS]   the card again each time that it has changed; one request every 10 seconds

CHANNELS_URL is the base address (default http://127.0.0.1:8080/api/), CHANNELS_KEY the API key.
"""
import http.client
import json
import os
import random
import re
import sys
import time
import urllib.parse

ATTEMPTS = 5  # of one request
TIMEOUT_S = 10
WAIT_MAX_S = 60  # a longer Retry-After is an error
MAY_PASS = {408, 429, 500, 502, 503, 504}
NOT_OURS = "not a response of the API"


class ApiError(Exception):
    """A response that is an error, and stays one when the request is repeated."""

    def __init__(self, status, text):
        super().__init__(f"{status} {text}")
        self.status = status


class Channels:
    """The API at one base address. Requests use one connection, so each thread needs an object of its own."""

    def __init__(self, base_url, key):
        url = urllib.parse.urlsplit(base_url)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(url.netloc, timeout=TIMEOUT_S)
        self.base_path = url.path.rstrip("/") + "/"
        self.key = key

    def list(self):
        """Yields each channel once. While the list changes, its pages shift: what moves to a later page is met again."""
        seen = set()
        page, more = 1, True
        while more:
            content = self.get(f"channels/?page={page}")[0]
            for channel in content["data"]:
                if channel["max_channel_id"] not in seen:
                    seen.add(channel["max_channel_id"])
                    yield channel
            more = content["pagination"]["has_next"]
            page += 1

    def card(self, channel_id):
        return self.get(f"channel/by-id/{channel_id}/")[0]["data"]

    def card_by_link(self, link):
        # quote() and not quote_plus() or urlencode(): to the API a plus sign is a plus sign, not a space.
        return self.get(f"channel/by-link/?link={urllib.parse.quote(link, safe='')}")[0]["data"]

    def follow(self, channel_id, seconds):
        """Yields the card, and again each time that it has changed."""
        etag = None
        while True:
            content, etag = self.get(f"channel/by-id/{channel_id}/", etag)
            if content:
                yield content["data"]
            time.sleep(seconds)

    def get(self, target, etag=None):
        """The content and its entity tag. The content is None if it is still the one that `etag` names."""
        headers = {"X-Api-Key": self.key}
        if etag:
            headers["If-None-Match"] = etag
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.connection.request("GET", self.base_path + target, headers=headers)
                response = self.connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()  # the next request opens it again
                if attempt == ATTEMPTS:
                    raise
                time.sleep(delay(attempt, 0))
                continue
            if response.status == 304:
                return None, etag
            if response.status == 200:
                return content_of(content), response.headers["ETag"]
            retry_after = response.headers.get("Retry-After", "")
            seconds = int(retry_after) if re.fullmatch("[0-9]{1,9}", retry_after) else 0
            if response.status not in MAY_PASS or attempt == ATTEMPTS or seconds > WAIT_MAX_S:
                raise ApiError(response.status, error_text(content))
            time.sleep(delay(attempt, seconds))
        raise AssertionError("the last attempt returns or raises")


def delay(attempt, retry_after):
    """As long as the server says, but longer each time; and not all clients at the same moment."""
    seconds = max(retry_after, 0.25 * 2 ** (attempt - 1))
    return seconds * random.uniform(1, 1.5)


def content_of(text):
    """What a success holds. A proxy or a captive portal may have sent something else."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or "data" not in content:
        raise ApiError(200, NOT_OURS)
    return content


def error_text(content):
    try:
        return json.loads(content)["error"]
    except (ValueError, LookupError, TypeError):
        return NOT_OURS


def print_json(card):
    print(json.dumps(card, ensure_ascii=False), flush=True)


def usage(text=__doc__):
    print(text.strip(), file=sys.stderr)
    sys.exit(2)


def main(command="", *words):
    key = os.environ.get("CHANNELS_KEY") or usage("channels.py: CHANNELS_KEY is not set: the API key")
    api = Channels(os.environ.get("CHANNELS_URL", "http://127.0.0.1:8080/api/"), key)
    if command in ("card", "follow") and not re.fullmatch("-?[0-9]{1,19}", words[0] if words else ""):
        usage()
    if command == "list" and not words:
        for channel in api.list():
            print(channel["max_channel_id"], channel["updated_at"] or "", channel["link"] or "", sep="\t")
    elif command == "card" and len(words) == 1:
        print_json(api.card(words[0]))
    elif command == "link" and len(words) == 1:
        print_json(api.card_by_link(words[0]))
    elif command == "follow" and len(words) <= 2 and is_interval(*words[1:]):
        for card in api.follow(words[0], float(words[1]) if words[1:] else 10):
            print_json(card)
    else:
        usage()


def is_interval(seconds="10"):
    return re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", seconds) and float(seconds) > 0


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (ApiError, OSError, http.client.HTTPException) as error:
        sys.exit(f"channels.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
