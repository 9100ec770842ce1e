"""Programs that a test in Python starts and stops: tests/observe, tests/openapi, tests/examples."""
import os
import socket
import subprocess
import time


class Programs:
    """What was started, stopped in the reverse order; their output is in the folder."""

    def __init__(self, folder, environment):
        self.folder = os.fspath(folder)
        self.started = []
        self.environment = {"PATH": os.environ["PATH"], **environment}

    def start(self, *command, name=None):
        """The output is in NAME.log, by default that of the program."""
        with open(self.log_path(name or os.path.basename(command[0])), "wb") as log:
            self.started.append(subprocess.Popen(  # pylint: disable=consider-using-with
                command, env=self.environment, stdout=log, stderr=log))

    def run(self, *command, given=""):
        return subprocess.run(
            command, env=self.environment, input=given, capture_output=True, text=True, check=True).stdout

    def log_path(self, name):
        return os.path.join(self.folder, f"{name}.log")

    def log(self, name):
        with open(self.log_path(name), encoding="utf-8") as file:
            return file.read()

    def end(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


RESERVED = []  # bound until the test ends: no other test gets these ports, and programs can listen there


def free_ports(count):
    for _ in range(count):
        RESERVED.append(socket.socket())
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            RESERVED[-1].setsockopt(socket.SOL_SOCKET, option, 1)
        RESERVED[-1].bind(("127.0.0.1", 0))
    return [s.getsockname()[1] for s in RESERVED[-count:]]


def wait_for(what, condition, timeout_s):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} is not ready after {timeout_s} s")
        time.sleep(0.05)
