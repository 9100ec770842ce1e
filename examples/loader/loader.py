#!/usr/bin/env python3
"""A loader: makes Redis hold the channels of a source, with redis-py (Debian: python3-redis).

  loader.py load FILE|-   the file, one card per line as the API returns it, becomes the whole catalogue
  loader.py issue-key     a new API key, printed only here

CHANNELD_REDIS_URL is the address of Redis (default redis://127.0.0.1:6379/0), CHANNELD_REDIS_PREFIX the prefix of every
key (default channels:). docs/schema.md describes the keys and says why they are written in this way. To load from a
source of your own, pass load() an iterable of dicts with the fields of a card, which are read from docs/openapi.json.
"""
import contextlib
import datetime
import hashlib
import itertools
import json
import os
import re
import secrets
import sys
import threading
import time

import redis

BATCH = 100  # channels per transaction: about a millisecond of Redis' time
LOCK_MS = 15000
RENEW_S = 5
SLICE = 10000  # ids of the index
LINK_START = "https://max.ru/"
COUNTS = ("followers_cnt_today", "views_24h", "views_48h")  # never below 0
with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "openapi.json"), encoding="utf-8") as document:
    FIELDS = json.load(document)["components"]["schemas"]["Channel"]["properties"]
NAMES = [field.encode() for field in FIELDS]


# --- What is stored of a card ---

def stored(card):
    """The hash of a card: bytes by field, without the fields that are null. Raises ValueError."""
    require(isinstance(card, dict) and card.get("max_channel_id") is not None, "max_channel_id", card)
    require(card.keys() <= FIELDS.keys(), "unknown field", card.keys() - FIELDS)
    given = {field: value for field, value in card.items() if value is not None}
    try:
        texts = {field.encode(): as_text(field, value).encode() for field, value in given.items()}
        views = given.get("views_24h"), given.get("views_48h")
        require(None in views or views[0] <= views[1], "views_24h, views_48h", views)
        return texts
    except ValueError as error:
        raise ValueError(f"channel {card['max_channel_id']}: {error}") from None


def as_text(field, value):
    if "integer" in FIELDS[field].get("type", ()):
        require(type(value) is int and -2**63 <= value < 2**63, field, value)  # bool is an int, too
        require(value in FIELDS[field].get("enum", [value]), field, value)
        require(field not in COUNTS or value >= 0, field, value)
        return str(value)
    if field == "followers_history":
        require(isinstance(value, dict), field, value)
        for day, count in value.items():
            require(is_time(day, "%Y-%m-%d", 10) and type(count) is int and 0 <= count < 2**63, field, value)
        return json.dumps(value, separators=(",", ":"))
    require(isinstance(value, str), field, value)
    if field == "link":
        slug = value[len(LINK_START):]
        require(value.startswith(LINK_START) and re.fullmatch(r"[^?#]*[^?#/]", slug, re.DOTALL)
                and len(slug.encode()) <= 256, field, value)
    if field == "updated_at":
        require(is_time(value, "%Y-%m-%dT%H:%M:%S", 19), field, value)
    return value


def is_time(text, form, length):
    try:
        datetime.datetime.strptime(text, form)
    except ValueError:
        return False
    return len(text) == length  # strptime() also takes 2026-1-2


def require(condition, field, value):
    if not condition:
        raise ValueError(f"{field}: {value!r}")


# --- The lock ---

class Lock:
    """The lock of a catalogue, held in a `with` statement: one loader at a time writes. A thread renews it, however slow
    the source is. If it expires all the same, because this process was suspended, it is lost: another load may have run."""

    def __init__(self, client, prefix):
        self.redis = client
        self.key = f"{prefix}loader"
        self.holder = f"loader.py, process {os.getpid()}, {secrets.token_hex(8)}".encode()
        self.ends = threading.Event()
        self.writing = threading.Lock()  # a renewal is a change of the lock, which ends another transaction
        self.renewal = threading.Thread(target=self.renew, daemon=True)

    def __enter__(self):
        deadline = time.monotonic() + LOCK_MS / 1000 + 1  # by then the lock of a loader that was killed has expired
        while not self.redis.set(self.key, self.holder, nx=True, px=LOCK_MS):
            if time.monotonic() > deadline:
                raise RuntimeError(f"another load is running: {self.redis.get(self.key)}")
            time.sleep(0.1)
        self.renewal.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.renewal.join()
        with contextlib.suppress(RuntimeError, redis.RedisError):  # another loader has the lock, or it expires
            self.write(lambda transaction: transaction.delete(self.key))

    def renew(self):
        while not self.ends.wait(RENEW_S):
            with contextlib.suppress(RuntimeError, redis.RedisError):  # the next write tells
                self.write(lambda transaction: transaction.pexpire(self.key, LOCK_MS))

    def write(self, queue, watched=None, check=lambda transaction: True):
        """Executes the commands that queue(transaction) sends: all of them, or none if the lock has been lost or the
        check fails. WATCH covers the time between these checks and EXEC: the process may be suspended there."""
        with self.writing, self.redis.pipeline(transaction=True) as transaction:
            transaction.watch(self.key, *([watched] if watched else []))
            holds = transaction.get(self.key) == self.holder and check(transaction)
            transaction.multi()
            if holds:
                queue(transaction)
            try:
                transaction.execute()  # in any case: it ends WATCH as UNWATCH does, for which the user needs no right
            except redis.WatchError:
                holds = False
        if not holds:
            raise RuntimeError("the lock is lost, or another load has taken over")


# --- The load ---

class Loader:
    """Makes one catalogue what a source holds, in its order."""

    def __init__(self, client, prefix, lock):
        self.redis, self.lock = client, lock
        self.card_start, self.link_start = f"{prefix}card:".encode(), f"{prefix}link:".encode()
        self.index, self.index_next = f"{prefix}index", f"{prefix}index.next"
        self.ids, self.links = set(), set()  # of the source so far
        self.written = self.removed = 0

    def load(self, cards):
        """Readers see each channel as it was or as it is now, and the old list or the new one. After an error the list
        is the old one and no channel is removed; the next load completes what this one began."""
        self.lock.write(lambda transaction: transaction.unlink(self.index_next))  # of a loader that was killed
        for batch in batches(map(stored, cards)):
            self.write_batch(batch)
        if not self.ids:
            raise ValueError("the source has no channels")
        self.swap_index()
        self.remove_cards()
        self.remove_links()

    def write_batch(self, batch):
        first = len(self.ids)
        for card in batch:
            self.note(card)
        changed = self.changed(batch)

        def queue(transaction):
            for card in changed:
                key = self.card_start + card[b"max_channel_id"]
                transaction.delete(key)
                transaction.hset(key, mapping=card)
                if b"link" in card:
                    transaction.set(self.link_start + card[b"link"], card[b"max_channel_id"])
            transaction.zadd(self.index_next, {card[b"max_channel_id"]: first + i for i, card in enumerate(batch)})

        self.lock.write(queue)
        self.written += len(changed)

    def note(self, card):
        channel_id, link = card[b"max_channel_id"], card.get(b"link")
        if channel_id in self.ids or link in self.links:
            raise ValueError(f"channel {channel_id.decode()}: it, or its link, is in the source already")
        self.ids.add(channel_id)
        if link:
            self.links.add(link)

    def changed(self, batch):
        """The cards that differ from what Redis holds. Writing the others would drop them from every cache."""
        with self.redis.pipeline(transaction=False) as pipeline:
            for card in batch:
                pipeline.hmget(self.card_start + card[b"max_channel_id"], NAMES)
                pipeline.get(self.link_start + card.get(b"link", b""))
            replies = pipeline.execute()
        return [card for card, before, owner in zip(batch, replies[::2], replies[1::2])
                if [*map(card.get, NAMES)] != before or b"link" in card and owner != card[b"max_channel_id"]]

    def swap_index(self):
        """The new index replaces the old one, unless they are equal: it would invalidate every page in the caches."""
        def queue(transaction):
            transaction.unlink(self.index)  # in the background; RENAME alone would free it before it returns
            transaction.rename(self.index_next, self.index)

        def is_whole(transaction):
            return transaction.zcard(self.index_next) == len(self.ids)

        if self.redis.zcard(self.index) == len(self.ids) and self.indexes_are_equal():
            self.lock.write(lambda transaction: transaction.unlink(self.index_next))
        else:
            self.lock.write(queue, self.index_next, is_whole)

    def indexes_are_equal(self):
        slices = ((first, first + SLICE - 1) for first in range(0, len(self.ids), SLICE))
        return all(self.redis.zrange(self.index, *ranks, withscores=True) ==
                   self.redis.zrange(self.index_next, *ranks, withscores=True) for ranks in slices)

    def remove_cards(self):
        for keys in batches(self.scan(self.card_start)):
            gone = [key for key in keys if key[len(self.card_start):] not in self.ids]
            self.unlink(gone)
            self.removed += len(gone)

    def remove_links(self):
        """Removes the link keys that name a channel without a card, or one that has another link now."""
        for keys in batches(self.scan(self.link_start)):
            with self.redis.pipeline(transaction=False) as pipeline:
                for key in keys:
                    pipeline.get(key)
                owners = pipeline.execute()
                for owner in owners:
                    pipeline.hget(self.card_start + (owner or b""), "link")
                links = pipeline.execute()
            self.unlink([key for key, link in zip(keys, links) if link is None or self.link_start + link != key])

    def unlink(self, keys):
        if keys:
            self.lock.write(lambda transaction: transaction.unlink(*keys))

    def scan(self, start):
        return self.redis.scan_iter(match=re.sub(rb"([*?\[\]\\])", rb"\\\1", start) + b"*", count=1000)


def batches(items):
    """Lists of at most BATCH items."""
    items = iter(items)
    return iter(lambda: list(itertools.islice(items, BATCH)), [])


def load(client, prefix, cards):
    """Makes `cards`, an iterable of dicts, the whole catalogue. Returns the Loader, for its counts."""
    with Lock(client, prefix) as lock:
        loader = Loader(client, prefix, lock)
        loader.load(cards)
        return loader


# --- API keys ---

def issue_key(client, prefix):
    """Redis gets the digest alone: a copy of Redis gives no access. The key is random: a digest protects no other."""
    key = secrets.token_urlsafe(32)
    client.sadd(f"{prefix}api_keys", hashlib.sha256(key.encode()).hexdigest())
    return key


def read(file):
    for number, line in enumerate(file, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def main(command="", *words):
    client = redis.Redis.from_url(os.environ.get("CHANNELD_REDIS_URL", "redis://127.0.0.1:6379/0"))
    prefix = os.environ.get("CHANNELD_REDIS_PREFIX", "channels:")
    if command == "load" and len(words) == 1:
        with open(0 if words[0] == "-" else words[0], encoding="utf-8") as file:
            loader = load(client, prefix, read(file))
        print(f"{loader.written} channels written, {len(loader.ids) - loader.written} unchanged, {loader.removed} removed")
    elif command == "issue-key" and not words:
        print(issue_key(client, prefix))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, RuntimeError, ValueError, redis.RedisError) as error:
        sys.exit(f"loader.py: {error}")
