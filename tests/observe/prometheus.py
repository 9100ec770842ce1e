"""A Prometheus with the rules of deploy/ that scrapes channeld every second, and questions to it."""
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import programs as support  # pylint: disable=wrong-import-position

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy")
TIMEOUT_S = 30


def get(url, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=5) as response:
        return response.read().decode(errors="replace")  # a compressed body is no text


def answers(url):
    try:
        return bool(get(url))
    except OSError:
        return False


def wait_for(what, condition):
    support.wait_for(what, condition, TIMEOUT_S)


def start(programs, tools, targets):
    """The address of a Prometheus that is ready. The labels are those that the Prometheus Operator gives a pod."""
    address = f"127.0.0.1:{support.free_ports(1)[0]}"
    labels = {"namespace": "n", "pod": "p", "container": "channeld"}
    content = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [os.path.realpath(os.path.join(DEPLOY, "prometheus", "rules.yml"))],
        "scrape_configs": [{"job_name": "channeld", "static_configs": [{"targets": targets, "labels": labels}]}]}
    path = os.path.join(programs.folder, "prometheus.yml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)  # JSON is YAML
    programs.start(os.path.join(tools, "prometheus"), "--config.file", path, "--storage.tsdb.path",
                   os.path.join(programs.folder, "data"), "--web.listen-address", address, "--query.lookback-delta", "30s",
                   "--log.level", "warn")
    wait_for("prometheus", lambda: answers(f"http://{address}/-/ready"))
    return address


def ask(address, path, **parameters):
    try:
        return json.loads(get(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
    except urllib.error.HTTPError as error:
        return json.loads(error.read())


def numbers(answer):
    """The finite values of an answer."""
    result = answer["data"]["result"]
    series = [result] if answer["data"]["resultType"] == "scalar" else [one["value"] for one in result]
    return [value for _, value in series if value not in ("NaN", "+Inf", "-Inf")]
