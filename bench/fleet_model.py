"""The model of bench/fleet-model, which describes it and its options."""
import argparse
import collections
import csv
import math
import statistics
import sys

PARAMETERS = ("write", "turn", "entry", "send", "message", "copy")
COLD_STEP, COLD_MOST = 0.05, 3
KEY = ("server", "args", "role", "tracking", "trackers", "held", "channels", "links", "write", "reread", "rate", "asleep", "pipeline")
TEXTS = {"server", "args", "role", "tracking", "write"}

# --- Lines of bench/fleet --------------------------------------------------------------------------------------------


def read_lines(paths):
    """Each line as a dictionary. A file may have several parts, each with a header."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            header = []
            for fields in csv.reader(file):
                if fields[0] == "server":
                    header = fields
                elif len(fields) == len(header):
                    line = {name: text if name in TEXTS else float(text) for name, text in zip(header, fields)}
                    if line["tracking"] == "broadcast":
                        line["held"] = 0.0  # the share makes no difference
                    yield line


def medians(lines):
    """One line per setting: the median of all its rounds, of each figure by itself."""
    groups = collections.OrderedDict()
    for line in lines:
        groups.setdefault(tuple(line[name] for name in KEY), []).append(line)
    for key, group in groups.items():
        row = dict(zip(KEY, key))
        for name in group[0]:
            if name not in row:
                row[name] = statistics.median(line[name] for line in group)
        yield row


# A combination of trackers; `held` is a share from 0 to 1.
Setting = collections.namedtuple("Setting", "tracking trackers held replica", defaults=[False])

# --- The model ---------------------------------------------------------------------------------------------------------


def coefficients(setting, per_turn, cold, warm):
    """What each parameter is multiplied with in the time per write of a master."""
    trackers, held = setting.trackers, setting.held
    factor = 1 + cold * max(0, 1 - warm / max(trackers, 1))
    row = dict.fromkeys(PARAMETERS, 0.0)
    row["write"] = 1
    row["turn"] = 1 / per_turn
    if setting.tracking == "keys":
        row["entry"] = 1 - (1 - held) ** trackers
        row["send"] = factor * trackers * (1 - (1 - held) ** per_turn) / per_turn
        row["message"] = factor * trackers * held
    elif setting.tracking == "broadcast":
        row["send"] = factor * trackers / per_turn
        row["copy"] = trackers
    return [row[name] for name in PARAMETERS]


def solve(matrix, right):
    """Gaussian elimination with pivoting."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda i: abs(rows[i][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) < 1e-12:
            sys.exit("fleet-model: too few different lines for all parameters")
        for i in range(at + 1, size):
            factor = rows[i][at] / rows[at][at]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[at])]
    values = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(rows[at][k] * values[k] for k in range(at + 1, size))
        values[at] = (rows[at][size] - rest) / rows[at][at]
    return values


def fit(rows, targets):
    """Least squares of relative errors with values of 0 or more: a negative one is left out, and the rest fitted again."""
    used = [k for k in range(len(rows[0])) if any(row[k] for row in rows)]
    while True:
        scaled = [[row[k] / target for k in used] for row, target in zip(rows, targets)]
        matrix = [[sum(row[i] * row[k] for row in scaled) for k in range(len(used))] for i in range(len(used))]
        values = solve(matrix, [sum(row[i] for row in scaled) for i in range(len(used))])
        if min(values) >= 0:
            return [dict(zip(used, values)).get(k, 0.0) for k in range(len(rows[0]))]
        del used[values.index(min(values))]


def product(parameters, row):
    return sum(a * b for a, b in zip(parameters, row))


class Model:
    """The times of a master, then how a replica differs from it, and sizes. `cold` is searched, as it is a factor of others."""

    def __init__(self, warm, lines, tables):
        self.warm, self.cold = warm, 0.0
        self.fit_master([line for line in lines if line["role"] == "master"])
        self.replica_turn, self.replica_factor = 0.0, 1.0
        self.fit_replica([line for line in lines if line["role"] == "replica"])
        self.per_key, self.per_registration = fit([[t["keys"], t["items"]] for t in tables], [t["tracking_bytes"] for t in tables])

    def fit_master(self, lines):
        measured = [line["write_us"] for line in lines]
        best = math.inf
        for step in range(round(COLD_MOST / COLD_STEP)):
            cold = step * COLD_STEP
            rows = [coefficients(setting_of(line), turn_of(line), cold, self.warm) for line in lines]
            times = fit(rows, measured)
            error = sum((product(times, row) / us - 1) ** 2 for row, us in zip(rows, measured))
            if error < best:
                best, self.cold, self.times = error, cold, times

    def fit_replica(self, lines):
        if lines:
            rows = [[1 / turn_of(line), self.without_turn(setting_of(line), turn_of(line))] for line in lines]
            self.replica_turn, self.replica_factor = fit(rows, [line["write_us"] for line in lines])

    def without_turn(self, setting, per_turn):
        row = coefficients(setting, per_turn, self.cold, self.warm)
        row[PARAMETERS.index("turn")] = 0
        return product(self.times, row)

    def write_us(self, setting, per_turn):
        if setting.replica:
            return self.replica_turn / per_turn + self.replica_factor * self.without_turn(setting, per_turn)
        return product(self.times, coefficients(setting, per_turn, self.cold, self.warm))

    def bytes(self, keys, registrations):
        return self.per_key * keys + self.per_registration * registrations


def distinct_keys(trackers, held, channels):
    return channels * (1 - (1 - held) ** trackers)


def is_plain(line):
    """Lines that the model speaks of: cards are written, nothing is read again, nobody sleeps."""
    return line["write"] == "card" and line["reread"] == 0 and line["asleep"] == 0 and line["links"] == 0


def turn_of(line):
    """The writes per turn, where they are known. A master takes a batch at once; a replica's turns only broadcast shows."""
    if line["role"] == "master":
        return line["pipeline"]
    if line["writes_per_turn"] > 0:
        return line["writes_per_turn"]
    return line["pipeline"] if 0 < line["rate"] <= 1000 else None


def setting_of(line):
    return Setting(line["tracking"], line["trackers"], line["held"] / 100, line["role"] == "replica")


def is_fitted(line, options, depths):
    if line["role"] == "replica" and line["trackers"] > min(filter(None, options.fit_trackers)):
        return False
    tracks = line["trackers"] == 0 or line["tracking"] == "broadcast" or line["held"] in options.fit_held
    return line["trackers"] in options.fit_trackers and tracks and line["pipeline"] in depths


def is_touched(line):
    """Whether EXISTS has registered many keys per command."""
    return line["reads"] < line["items"] / 2


# --- Output ------------------------------------------------------------------------------------------------------------


def table(header, rows):
    widths = [max(len(str(row[i])) for row in [header] + rows) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths]] + rows:
        print("| " + " | ".join(str(cell).rjust(width) for cell, width in zip(row, widths)) + " |")
    print()


def number(value):
    """Three significant digits."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    digits = max(0, 2 - int(math.floor(math.log10(abs(value)))))
    return f"{round(value, digits - (0 if digits else int(math.log10(abs(value))) - 2)):,.{digits}f}"


def columns(line):
    return [line["role"], line["tracking"], f"{line['trackers']:.0f}",
            "" if line["tracking"] == "broadcast" else f"{line['held']:g}%", f"{line['pipeline']:.0f}",
            f"{line['rate']:.0f}" if line["rate"] else "most"]


def show_parameters(server, args, model, lines):
    connections = [line["connect_bytes"] for line in lines if line["trackers"] > 0]
    reads = [line["read_us"] for line in lines if line["tracking"] == "keys" and line["reads"] > 0 and not is_touched(line)]
    print(f"{server} {args}\n")
    rows = [[name, f"{number(value)} us"] for name, value in zip(PARAMETERS, model.times)]
    rows += [["cold", number(model.cold)], ["warm", number(model.warm)],
             ["replica: turn", f"{number(model.replica_turn)} us"], ["replica: factor", number(model.replica_factor)],
             ["bytes per key", number(model.per_key)], ["bytes per registration", number(model.per_registration)]]
    if connections:
        rows.append(["bytes per connection", number(statistics.median(connections))])
    if reads:
        rows.append(["reading a card", f"{number(statistics.median(reads))} us"])
    table(["parameter", "value"], rows)


def show_comparison(title, model, lines):
    """Returns the errors."""
    print(f"{title}\n")
    rows, errors = [], []
    for line in lines:
        predicted = model.write_us(setting_of(line), turn_of(line))
        errors.append(predicted / line["write_us"] - 1)
        rows.append(columns(line) + [number(line["write_us"]), number(predicted), f"{100 * errors[-1]:+.0f}%"])
    table(["at a", "tracking", "trackers", "held", "pipeline", "rate", "measured us", "model us", "error"], rows)
    return errors


def show_memory(model, tables):
    print("Memory of the tables, MB (fitted: the same shares as above)\n")
    rows, errors = [], []
    for line in sorted({(t["trackers"], t["held"], t["channels"], t["keys"], t["items"]): t for t in tables}.values(),
                       key=lambda t: t["items"]):
        predicted = model.bytes(line["keys"], line["items"])
        errors.append(predicted / line["tracking_bytes"] - 1)
        rows.append([f"{line['trackers']:.0f}", f"{line['held']:g}%", f"{line['channels']:.0f}", f"{line['items']:.0f}",
                     number(line["tracking_bytes"] / 1e6), number(predicted / 1e6), f"{100 * errors[-1]:+.0f}%"])
    table(["trackers", "held", "channels", "registrations", "measured", "model", "error"], rows)
    return errors


def summary(name, errors):
    if errors:
        print(f"{name}: {len(errors)} lines, largest error {100 * max(map(abs, errors)):.0f}%, "
              f"{sum(abs(e) <= 0.2 for e in errors)} within 20%\n")


def replicas_needed(model, setting, rate, budget):
    """The smallest number of replicas whose share of a core is within the budget; 0: the master suffices; None: never."""
    def fits(trackers, replica):
        return rate * model.write_us(setting._replace(trackers=trackers, replica=replica), 1) <= 1e6 * budget

    if fits(setting.trackers, False):
        return 0
    if not fits(1, True):
        return None
    return next(n for n in range(1, setting.trackers + 1) if fits(math.ceil(setting.trackers / n), True))


def show_fleets(model, options):
    print(f"Fleets of pods with {options.workers} workers; writes one at a time, the trackers at one Redis. Cores: processor "
          f"time per second. Replicas: so that each uses at most {options.budget:g} of a core (0: the master suffices)\n")
    rows = []
    for pods in options.pods:
        for tracking, held in [("broadcast", 0)] + [("keys", h) for h in options.held]:
            s = Setting(tracking, int(pods * options.workers), held / 100)
            row = [f"{pods:g}", s.trackers, tracking, f"{held:g}%" if held else "", number(model.write_us(s, 1)),
                   number(model.write_us(s, 32))]
            for rate in options.rates:
                needed = replicas_needed(model, s, rate, options.budget)
                row.append(f"{number(rate * model.write_us(s, 1) / 1e6)} ({'-' if needed is None else needed})")
            rows.append(row)
    header = ["pods", "trackers", "tracking", "held", "us/write", "of 32"]
    table(header + [f"{rate:,.0f}/s: cores (replicas)" for rate in options.rates], rows)


def show_memory_of_fleets(model, options):
    print("Memory of Redis' tables, GB, if each worker has read the share, or a fixed number of channels\n")
    rows = []
    for channels in options.channels:
        shares = [(f"{h:g}%", h / 100) for h in options.held] + [(f"{options.cards:,.0f}", min(1, options.cards / channels))]
        for name, held in shares:
            row = [f"{channels:,.0f}", name]
            for pods in options.pods:
                trackers = pods * options.workers
                row.append(number(model.bytes(distinct_keys(trackers, held, channels), trackers * held * channels) / 1e9))
            rows.append(row)
    table(["channels", "held"] + [f"{pods:g} pods" for pods in options.pods], rows)


def parse_options():
    def numbers(text):
        return [float(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(usage="bench/fleet-model [OPTION...] FILE...; --help describes the options", add_help=False)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--server")
    parser.add_argument("--args", default="")
    parser.add_argument("--fit-trackers", type=numbers, default=[0, 100, 1000])
    parser.add_argument("--fit-held", type=numbers, default=[2, 20, 100])
    parser.add_argument("--warm", type=float, default=200)
    parser.add_argument("--workers", type=float, default=4)
    parser.add_argument("--pods", type=numbers, default=[10, 100, 1000])
    parser.add_argument("--held", type=numbers, default=[2, 20, 100])
    parser.add_argument("--rates", type=numbers, default=[10, 100, 1000, 10000])
    parser.add_argument("--channels", type=numbers, default=[1e5, 1e6, 1e7])
    parser.add_argument("--cards", type=float, default=50000)
    parser.add_argument("--budget", type=float, default=0.7)
    return parser.parse_args()


def main():
    options = parse_options()
    lines = [line for line in medians(read_lines(options.files)) if is_plain(line)]
    server = options.server or (lines[0]["server"] if lines else "")
    lines = [line for line in lines if line["server"] == server and line["args"] == options.args]
    depths = [d for d, _ in collections.Counter(line["pipeline"] for line in lines).most_common(2)]
    known = [line for line in lines if turn_of(line)]
    fitted = [line for line in known if is_fitted(line, options, depths)]
    tables = [line for line in lines if line["tracking"] == "keys" and line["items"] > 0]
    if not fitted or not tables:
        sys.exit("fleet-model: not enough lines of this server")
    model = Model(options.warm, fitted, [t for t in tables if t["held"] in options.fit_held])
    show_parameters(server, options.args, model, lines)
    errors = show_comparison("Fitted", model, fitted)
    out = show_comparison("Predicted", model, [line for line in known if line not in fitted])
    memory = show_memory(model, tables)
    summary("fitted", errors)
    summary("predicted", out)
    summary("memory", memory)
    show_fleets(model, options)
    show_memory_of_fleets(model, options)


main()
