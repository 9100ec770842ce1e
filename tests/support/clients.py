"""Clients that send requests while a test in Python does something else: tests/front, tests/package, tests/systemd."""
import http.client
import json
import random
import threading
import time

from programs import wait_for


class Clients:
    """Clients with persistent connections, but for those that `keeps` excludes. None of them repeats a request: a connection
    that is refused, reset, or closed without a response that says so before is a failure, and so is any other response than a
    whole 200. `connect` makes a connection; `pause` and `keeps` get the number of the client."""

    def __init__(self, count, connect, key, paths, *, pause=lambda number: 0, keeps=lambda number: True):
        self.connect, self.key, self.paths, self.pause, self.keeps = connect, key, paths, pause, keeps
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.answered, self.slowest_s, self.failures = 0, 0.0, []
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def run(self, number):
        choose = random.Random(number)
        connection = self.connect()
        while not self.over.is_set():
            began = time.monotonic()
            try:
                failure = self.get(connection, choose.choice(self.paths))
            except (OSError, http.client.HTTPException, ValueError) as error:
                connection.close()
                failure = repr(error)
            if not self.keeps(number):
                connection.close()
            with self.lock:
                self.answered += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                if failure:
                    self.failures.append((time.monotonic(), failure))
            self.over.wait(self.pause(number))
        connection.close()

    def get(self, connection, path):
        connection.request("GET", path, headers={"X-Api-Key": self.key})
        response = connection.getresponse()
        body = response.read()
        if response.status == 200 and json.loads(body)["success"] is True:
            return None
        return f"{response.status} {body[:100]!r}"

    def more(self, count=300):
        until = self.answered + count
        wait_for("the load", lambda: self.answered >= until, 30)

    def end(self):
        """Ends the load; what was not a success."""
        self.__exit__()
        return [what for _, what in self.failures]
