// Draws the dashboard that Grafana imports (channeld.json) from the answers of the Prometheus on this origin: its rows,
// panels and variables; above them the alerts, each with its section of the runbook (runbook.md). Nothing else is ever
// requested: the Content-Security-Policy of index.html allows this origin alone. page.js is loaded before.
"use strict";

const POINTS = 240; // of a chart: the step is made so
const CHART_HEIGHT = 200;
const SECONDS = {s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 31536000};
const POWERS_OF_TWO = Array.from({length: 50}, (_, power) => 2 ** power);
const TIME = new Intl.DateTimeFormat([], {dateStyle: "short", timeStyle: "medium", hourCycle: "h23"});
const PALETTE = ["#56a64b", "#e0b400", "#3274d9", "#ff780a", "#e02f44", "#8f3bb8", "#37872d", "#1f60c4", "#fa6400", "#c4162a"];
const COLORS = {green: "#56a64b", yellow: "#e0b400", blue: "#3274d9", orange: "#ff780a", red: "#e02f44", purple: "#8f3bb8",
    "dark-blue": "#1250b0", "dark-green": "#19730e", "dark-red": "#8a0f1c", "light-orange": "#ffb357", "light-red": "#ff7383"};

// --- Durations, values and units ---

function seconds(duration) {
    const parts = [...String(duration).matchAll(/(\d+(?:\.\d+)?)(ms|[smhdwy])/g)];
    return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (SECONDS[unit] ?? 0.001), 0);
}

function digits(value) {
    const size = Math.abs(value);
    return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3)));
}

// scaled(1500, 1000, ["", "K"]) is "1.5K"
function scaled(value, base, names) {
    let at = 0;
    while (Math.abs(value) >= base && at < names.length - 1) {
        value /= base;
        at += 1;
    }
    return digits(value) + names[at];
}

function formatSeconds(value) {
    const size = Math.abs(value);
    if (size === 0) {
        return "0 s";
    }
    for (const [limit, name, factor] of [[1e-3, "µs", 1e6], [1, "ms", 1e3], [60, "s", 1], [3600, "min", 1 / 60],
        [86400, "h", 1 / 3600]]) {
        if (size < limit) {
            return `${digits(value * factor)} ${name}`;
        }
    }
    return `${digits(value / 86400)} d`;
}

const SHORT = ["", "K", "M", "G", "T"];
const UNITS = {
    bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
    ops: (value) => `${scaled(value, 1000, SHORT)}/s`,
    percentunit: (value) => `${digits(value * 100)}%`,
    reqps: (value) => `${scaled(value, 1000, SHORT)} req/s`,
    s: formatSeconds,
    short: (value) => scaled(value, 1000, SHORT),
};

function format(value, unit) {
    return value === null || value === undefined ? "–" : UNITS[unit](value);
}

// --- Queries and what is answered ---

// The steps of a range, as a multiple of the interval at which Prometheus scrapes.
function stepFor(range, scrapeInterval) {
    return Math.max(1, Math.ceil(range / POINTS / scrapeInterval)) * scrapeInterval;
}

// Replaces Grafana's variables: $__rate_interval, and $name of the given values, which are regular expressions.
function expand(expression, {step, scrapeInterval, values}) {
    const known = {...values, __rate_interval: `${Math.max(step + scrapeInterval, 4 * scrapeInterval)}s`};
    return expression.replace(/\$(\w+)/g, (whole, name) => known[name] ?? whole);
}

function legend(target, labels) {
    if (target.legendFormat && target.legendFormat !== "__auto") {
        return target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? "");
    }
    const pairs = Object.entries(labels).filter(([name]) => name !== "__name__");
    return pairs.map(([name, value]) => `${name}=${value}`).join(" ") || labels.__name__ || "value";
}

function finite(text) {
    const value = Number(text);
    return Number.isFinite(value) ? value : null;
}

// The samples of a series at the given times; null where there is none.
function align(samples, times, step) {
    const values = new Array(times.length).fill(null);
    for (const [time, text] of samples) {
        const at = Math.round((time - times[0]) / step);
        if (at >= 0 && at < values.length) {
            values[at] = finite(text);
        }
    }
    return values;
}

// The sums of each series with those before it, and the bands between them. Hidden series count nothing; those that are zero
// are not drawn, either: their line would be that of the series below.
function stack(series, isHidden) {
    const sums = series[0]?.map(() => 0) ?? [];
    const isDrawn = (at) => !isHidden(at) && series[at].some((value) => value);
    const stacked = series.map((values, at) => isDrawn(at)
        ? values.map((value, time) => value === null ? null : (sums[time] += value)) : values.map(() => null));
    const shown = series.map((_, at) => at).filter(isDrawn);
    const bands = shown.slice(1).map((at, before) => ({series: [at + 1, shown[before] + 1]})); // series 0 of uPlot is the time
    return {stacked, bands};
}

// The last step of the thresholds that a value reaches.
function thresholdColor(value, thresholds) {
    return (thresholds?.steps ?? []).reduce((color, step) => step.value === null || value >= step.value ? step.color : color, "");
}

function matches({id, options}, name) {
    return id === "byName" ? name === options : id === "byRegexp" && new RegExp(`^(?:${options})$`).test(name);
}

function colorOf(panel, name, at) {
    for (const {matcher, properties} of panel.fieldConfig?.overrides ?? []) {
        const fixed = properties.find((property) => property.id === "color")?.value.fixedColor;
        if (fixed && matches(matcher, name)) {
            return COLORS[fixed] ?? fixed;
        }
    }
    return PALETTE[at % PALETTE.length];
}

// The panels of a dashboard under the rows that they belong to.
function rowsOf(definition) {
    const rows = [];
    for (const panel of definition.panels) {
        if (panel.type === "row") {
            rows.push({title: panel.title, panels: []});
        } else {
            rows.at(-1).panels.push(panel);
        }
    }
    return rows;
}

// --- Prometheus ---

class Unreachable extends Error {}

async function ask(path, parameters = {}) {
    const base = document.querySelector('meta[name="prometheus"]').content;
    let answer;
    try {
        const response = await get(`${base}api/v1/${path}?${new URLSearchParams(parameters)}`);
        answer = response.headers.get("content-type")?.startsWith("application/json") ? await response.json() : null;
    } catch {
        answer = null;
    }
    if (!answer) {
        throw new Unreachable("Prometheus does not answer.");
    }
    if (answer.status !== "success") {
        throw new Error(`Prometheus: ${answer.error}`);
    }
    return answer.data;
}

const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

// --- Panels: each is drawn when it is in sight ---

class Panel {
    constructor(definition) {
        this.definition = definition;
        this.defaults = definition.fieldConfig?.defaults ?? {};
        this.content = element("div", {className: "content"});
        this.element = element("div", {className: `panel ${definition.type}`},
            element("h3", {textContent: definition.title, title: definition.description ?? ""}), this.content);
        this.element.style.setProperty("--columns", definition.gridPos.w);
        this.inSight = false;
    }

    async update(view) {
        try {
            await this.draw(view);
            this.element.dataset.drawn = view.end;
        } catch (error) {
            if (error instanceof Unreachable) {
                throw error; // what is drawn stays, and the page tells
            }
            this.show(element("p", {className: "fault", textContent: error.message}));
        }
    }

    show(...children) {
        this.content.replaceChildren(...children);
    }

    // The answers to the queries of the panel: [{name, samples}]
    async query(view, path, parameters) {
        const {targets} = this.definition;
        const answers = await Promise.all(targets.map((target) => ask(path, {query: expand(target.expr, view), ...parameters})));
        return answers.flatMap(({result}, at) => result
            .map(({metric, value, values}) => ({name: legend(targets[at], metric), samples: values ?? [value]}))
            .sort((one, other) => one.name.localeCompare(other.name, "en", {numeric: true})));
    }
}

class Stat extends Panel {
    async draw(view) {
        const series = await this.query(view, "query");
        const known = series.map(({name, samples}) => ({name, value: finite(samples[0][1])})).filter(({value}) => value !== null);
        this.show(...known.map(({name, value}) => this.line(name, format(value, this.defaults.unit))));
        if (known.length === 0) {
            this.show(element("p", {className: "value note", textContent: this.defaults.noValue ?? "–", title: "no data"}));
        }
        const color = known.length > 0 ? thresholdColor(known[0].value, this.defaults.thresholds) : "";
        this.element.className = `panel stat ${color}`;
    }

    line(name, value) {
        const mode = this.definition.options?.textMode;
        const withName = mode === "value_and_name" ? element("small", {textContent: ` ${name}`}) : "";
        return element("p", {className: "value", title: name}, mode === "name" ? name : value, withName);
    }
}

class Timeseries extends Panel {
    async draw(view) {
        const series = await this.query(view, "query_range", {start: view.start, end: view.end, step: view.step});
        const times = Array.from({length: Math.round((view.end - view.start) / view.step) + 1}, (_, at) => view.start + at * view.step);
        this.values = series.map(({samples}) => align(samples, times, view.step));
        this.times = times;
        const names = series.map(({name}) => name);
        if (series.length === 0) {
            this.forget();
            this.show(element("p", {className: "note", textContent: this.defaults.noValue ?? "No data in this time range."}));
        } else if (this.chart && this.range === view.range && names.join("\n") === this.names.join("\n")) {
            this.setData(this.chart);
        } else {
            this.forget();
            this.names = names;
            this.range = view.range;
            this.show();
            this.chart = new uPlot(this.options(names), [times, ...this.values], this.content);
            this.setData(this.chart);
        }
    }

    forget() {
        this.chart?.destroy();
        this.chart = null;
    }

    get isStacked() {
        return this.defaults.custom?.stacking?.mode === "normal";
    }

    setData(chart) {
        let shown = this.values;
        if (this.isStacked) {
            const {stacked, bands} = stack(this.values, (at) => !chart.series[at + 1].show);
            shown = stacked;
            chart.delBand(null);
            bands.forEach((band) => chart.addBand(band));
        }
        chart.setData([this.times, ...shown]);
    }

    options(names) {
        const {unit, min, max, custom = {}} = this.defaults;
        const last = () => this.times.length - 1; // what the legend shows without a pointer on the chart
        const opacity = Math.round((custom.fillOpacity ?? 0) * 2.55).toString(16).padStart(2, "0");
        const axis = {stroke: () => cssColor("--muted"), font: "11px sans-serif", ticks: {show: false},
            grid: {stroke: () => cssColor("--border"), width: 1}};
        return {
            width: this.content.clientWidth,
            height: CHART_HEIGHT,
            cursor: {drag: {x: false, y: false}, sync: {key: "channeld"}},
            padding: [8, 20, 0, 0],
            scales: {y: {range: (_, low, high) => {
                const least = min ?? low ?? 0;
                const [from, to] = uPlot.rangeNum(least, high > least ? high : least + 1, 0.1, true);
                return [min ?? from, max ?? to];
            }}},
            axes: [
                {...axis, size: 28, space: 60, values: this.range > 2 * SECONDS.d ? "{MMM} {D}" : "{HH}:{mm}"},
                {...axis, size: 72, incrs: unit === "bytes" ? POWERS_OF_TWO : undefined,
                    values: (_, ticks) => ticks.map((tick) => format(tick, unit))},
            ],
            series: [{label: "Time", value: (_, time, __, index) => TIME.format((time ?? this.times[index ?? last()]) * 1000)},
                ...names.map((name, at) => ({
                    label: name,
                    stroke: colorOf(this.definition, name, at),
                    fill: colorOf(this.definition, name, at) + opacity,
                    width: 1,
                    value: (_, __, series, index) => format(this.values[series - 1]?.[index ?? last()], unit),
                }))],
            hooks: {setSeries: [(chart, _, changes) => this.isStacked && changes.show !== undefined && this.setData(chart)]},
        };
    }

    resize() {
        this.chart?.setSize({width: this.content.clientWidth, height: CHART_HEIGHT});
    }
}

const PANELS = {stat: Stat, timeseries: Timeseries};

// --- The page ---

class Dashboard {
    constructor(definition, runbook) {
        Object.assign(this, {definition, runbook, panels: [], values: {}, scrapeInterval: 15, timer: 0, updating: false});
        this.choices = document.getElementById("choices");
        this.variables = definition.templating.list.filter(({type}) => type === "query").map((variable) => this.addVariable(variable));
        for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
            const select = this.choices.elements[name];
            if (select && [...select.options].some((option) => option.value === value)) {
                select.value = value;
            }
        }
        this.addRows();
        this.listen();
    }

    // A variable is a choice among the values of a label: label_values(metric, label). All of them at first.
    addVariable({name, label, definition, allValue}) {
        const [, selector, labelName] = definition.match(/^label_values\((?:(.*),)?\s*(\w+)\)$/);
        const select = element("select", {name});
        const all = allValue ?? ".*";
        select.append(new Option("all", all));
        const shown = element("label", {hidden: true}, `${label ?? name} `, select); // while there is nothing to choose
        this.choices.append(shown);
        return {name, selector, labelName, select, shown, all};
    }

    async updateVariables(view) {
        for (const {name, selector, labelName, select, shown} of this.variables) {
            const parameters = selector ? {"match[]": expand(selector, view)} : {};
            const found = await ask(`label/${labelName}/values`, {...parameters, start: view.start, end: view.end});
            const chosen = select.value;
            const options = found.map((value) => new Option(value, value.replace(/[.*+?^${}()|[\]\\]/g, "\\\\$&")));
            select.replaceChildren(select.options[0], ...options);
            select.value = chosen;
            select.selectedIndex = Math.max(0, select.selectedIndex);
            shown.hidden = found.length < 2;
            view.values[name] = select.value;
        }
    }

    addRows() {
        const sight = new IntersectionObserver((entries) => entries.forEach(({target, isIntersecting}) => {
            const panel = this.panels.find((one) => one.element === target);
            panel.inSight = isIntersecting;
            if (isIntersecting && this.view && panel.element.dataset.drawn !== String(this.view.end)) {
                this.attempt(() => panel.update(this.view));
            }
        }), {rootMargin: "300px"});
        const sizes = new ResizeObserver(() => this.panels.forEach((panel) => panel.resize?.()));
        for (const {title, panels} of rowsOf(this.definition)) {
            const content = element("div", {className: "panels"});
            const row = element("details", {className: "row", open: true}, element("summary", {textContent: title}), content);
            this.addJump(title, row);
            for (const definition of panels) {
                const panel = new PANELS[definition.type](definition);
                this.panels.push(panel);
                content.append(panel.element);
                sight.observe(panel.element);
            }
            document.getElementById("dashboard").append(row);
        }
        sizes.observe(document.getElementById("dashboard"));
    }

    // The fragment of the address holds the choices, so the links do not change it.
    addJump(title, row) {
        const link = element("a", {textContent: title, href: "#"});
        link.addEventListener("click", (event) => {
            event.preventDefault();
            row.open = true;
            row.scrollIntoView();
            row.querySelector("summary").focus({preventScroll: true});
        });
        document.getElementById("rows").append(link);
    }

    listen() {
        this.choices.addEventListener("change", () => {
            history.replaceState(null, "", `#${new URLSearchParams(new FormData(this.choices))}`);
            this.update();
        });
        document.addEventListener("visibilitychange", () => document.hidden || this.update());
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
            () => this.panels.forEach(({chart}) => chart?.redraw(false)));
    }

    // What is to be drawn now. Times are multiples of the step, so that a chart moves on by whole samples.
    currentView() {
        const range = seconds(this.choices.elements.range.value);
        const step = stepFor(range, this.scrapeInterval);
        const end = Math.floor(Date.now() / 1000 / step) * step;
        const values = Object.fromEntries(this.variables.map(({name, select}) => [name, select.value]));
        return {range, step, end, start: end - range, scrapeInterval: this.scrapeInterval, values};
    }

    // Runs what asks Prometheus, and tells what is wrong with it.
    async attempt(action) {
        const trouble = document.getElementById("trouble");
        try {
            await action();
            trouble.hidden = true;
        } catch (error) {
            trouble.textContent = error instanceof Unreachable
                ? `${error.message} What is below is what it answered last.` : error.message;
            trouble.hidden = false;
        }
    }

    async update() {
        clearTimeout(this.timer);
        if (!this.updating && !document.hidden) {
            this.updating = true;
            await this.attempt(async () => {
                await this.updateReplicas();
                const view = this.currentView();
                await this.updateVariables(view);
                this.view = view;
                await this.updateAlerts();
                await Promise.all(this.panels.filter((panel) => panel.inSight).map((panel) => panel.update(view)));
            });
            this.updating = false;
        }
        const refresh = seconds(this.choices.elements.refresh.value);
        if (refresh > 0) {
            this.timer = setTimeout(() => this.update(), refresh * 1000);
        }
    }

    async updateReplicas() {
        const {activeTargets} = await ask("targets", {state: "active"});
        const up = activeTargets.filter(({health}) => health === "up");
        this.scrapeInterval = seconds(activeTargets[0]?.scrapeInterval ?? "") || this.scrapeInterval;
        document.getElementById("status").textContent = activeTargets.length === 0 ? "Prometheus has found no replica yet"
            : `${up.length} of ${activeTargets.length} replicas scraped · ${new Date().toLocaleTimeString([], {hour12: false})}`;
    }

    async updateAlerts() {
        const {alerts} = await ask("alerts");
        const rank = ({state, labels}) => `${state === "firing" ? 0 : 1}${labels.severity === "critical" ? 0 : 1}${labels.alertname}`;
        alerts.sort((one, other) => rank(one).localeCompare(rank(other)));
        const shown = JSON.stringify(alerts.map(({labels, state, annotations}) => [labels, state, annotations]));
        if (shown !== this.shownAlerts) { // else what is unfolded stays so
            document.getElementById("alerts").replaceChildren(...alerts.map((alert) => this.alert(alert)));
            this.shownAlerts = shown;
        }
    }

    alert({state, labels, annotations, activeAt}) {
        const since = new Date(activeAt).toLocaleString([], {hour12: false});
        const address = annotations.runbook_url ?? "";
        const [, anchor] = address.split("#");
        const section = sectionOf(this.runbook, anchor);
        return element("details", {className: `alert ${labels.severity} ${state}`},
            element("summary", {}, element("strong", {textContent: labels.alertname}),
                ` ${labels.severity}, ${state} since ${since}: ${annotations.summary ?? ""}`),
            element("p", {textContent: annotations.description ?? ""}),
            ...markdown(section, "runbook.html"),
            element("a", {href: section ? `runbook.html#${anchor}` : address, textContent: address && "Runbook"}));
    }
}

async function show() {
    try {
        const definition = await (await load("channeld.json")).json();
        const runbook = await (await load("runbook.md")).text();
        await new Dashboard(definition, runbook).update();
    } catch (error) {
        const trouble = document.getElementById("trouble");
        trouble.textContent = error.message;
        trouble.hidden = false;
    }
}

if (typeof document === "undefined") {
    const isUnit = (name) => name in UNITS;
    module.exports = {align, colorOf, expand, finite, format, isUnit, legend, rowsOf, seconds, stack, stepFor, thresholdColor};
} else {
    show();
}
