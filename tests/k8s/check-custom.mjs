// Checks objects of custom kinds (a List in JSON on standard input) against the published descriptions of their
// CustomResourceDefinitions, in the form of the npm packages of deps/k8s: values by the validators made from these
// (types, patterns, enumerations, ranges), unknown fields by their types. Prints each error; the exit code is 1 if there is
// one, or if a kind has no package. CUSTOM is as in api-server.
//
//   node check-custom.mjs MODELS CUSTOM...                MODELS is where npm installed deps/k8s
//   node check-custom.mjs --self-test MODELS CUSTOM...    checks that each kind of error is found in the objects as valid example
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const selfTest = process.argv[2] === "--self-test";
const [models, ...custom] = process.argv.slice(selfTest ? 3 : 2);
const packages = {
    "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
    "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
    "networking.istio.io": "@kubernetes-models/istio",
};
const require = createRequire(path.join(models, "package.json"));

const isCustom = (o) => custom.includes(`${o.apiVersion}/${o.kind}`);
const nameOf = (o) => `${o.kind}/${o.metadata.name}`;
const moduleOf = (o) => `${packages[o.apiVersion.split("/")[0]]}/${o.apiVersion}/${o.kind}`;

async function valueErrors(o) {
    const file = path.join(models, "node_modules", `${moduleOf(o)}.js`);
    const { [o.kind]: Model } = await import(pathToFileURL(file));
    try {
        new Model(o).validate();
        return [];
    } catch (error) {
        if (!error.errors) throw error;
        return error.errors.map((e) => `${nameOf(o)}: ${e.instancePath} ${e.message}`);
    }
}

const parsed = new Map(); // declarations, which all programs share

// A literal that is assigned to a type may have no property that the type does not have.
function fieldErrors(objects) {
    const ts = require("typescript");
    const source = path.join(models, "objects.ts");
    const text = objects.map((o, i) =>
        `import type { I${o.kind} as T${i} } from "${moduleOf(o)}";\nexport const o${i}: T${i} = ${JSON.stringify(o)};\n`);
    const options = {
        strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.Node16, moduleResolution: ts.ModuleResolutionKind.Node16,
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile, fileExists, readFile } = host;
    host.getSourceFile = (name, ...rest) => {
        if (name === source) return ts.createSourceFile(name, text.join(""), options.target);
        if (!parsed.has(name)) parsed.set(name, getSourceFile.call(host, name, ...rest));
        return parsed.get(name);
    };
    host.fileExists = (name) => name === source || fileExists.call(host, name);
    host.readFile = (name) => name === source ? text.join("") : readFile.call(host, name);
    return ts.getPreEmitDiagnostics(ts.createProgram([source], options, host)).map((d) => {
        const line = d.file && ts.getLineAndCharacterOfPosition(d.file, d.start).line;
        const about = d.file?.fileName === source ? nameOf(objects[line >> 1]) : d.file?.fileName;
        return `${about}: ${ts.flattenDiagnosticMessageText(d.messageText, " ")}`;
    });
}

async function check(all) {
    const objects = all.filter(isCustom);
    const errors = all.filter((o) => Object.keys(packages).includes(o.apiVersion.split("/")[0]) && !isCustom(o))
        .map((o) => `${nameOf(o)}: ${o.apiVersion} is not among ${custom.join(" ")}`);
    if (objects.length) errors.push(...fieldErrors(objects));
    for (const o of objects) errors.push(...await valueErrors(o));
    return errors;
}

async function testItself(all) {
    const of = (kind) => (objects) => objects.find((o) => o.kind === kind).spec;
    const [route, monitor, rule, destination, service] =
        ["HTTPRoute", "PodMonitor", "PrometheusRule", "DestinationRule", "VirtualService"].map(of);
    const faults = [
        [(os) => { route(os).parentRef = route(os).parentRefs; }, `"parentRef"' does not exist`],
        [(os) => { route(os).rules[0].backendRefs[0].prot = 80; }, `"prot"' does not exist`],
        [(os) => { route(os).rules[0].matches[0].path.type = "Prefix"; }, "/path/type"],
        [(os) => { route(os).rules[0].timeouts.request = "10 s"; }, "/timeouts/request"],
        [(os) => { route(os).rules[0].backendRefs[0].port = 80000; }, "/backendRefs/0/port"],
        [(os) => { route(os).hostnames[0] = "http://x"; }, "/hostnames/0"],
        [(os) => { monitor(os).jobLable = "x"; }, `"jobLable"' does not exist`],
        [(os) => { monitor(os).podMetricsEndpoints[0].interval = "15"; }, "/interval"],
        [(os) => { delete monitor(os).selector; }, "selector"],
        [(os) => { rule(os).groups[0].rules[0].exp = "1"; }, `"exp"' does not exist`],
        [(os) => { delete rule(os).groups[0].rules[0].expr; }, "expr"],
        [(os) => { destination(os).trafficPolicy.outlierDetection.consecutiveErors = 5; }, `"consecutiveErors"' does not exist`],
        [(os) => { destination(os).trafficPolicy.outlierDetection.interval = 5; }, "/interval"],
        [(os) => { service(os).http[0].retries.retryon = "reset"; }, `retryon`],
        [(os) => { os.find((o) => o.kind === "HTTPRoute").apiVersion = "gateway.networking.k8s.io/v2"; }, "is not among"],
    ];
    const sound = await check(all);
    if (sound.length) throw new Error(`the valid example has errors: ${sound}`);
    for (const [change, expected] of faults) {
        const broken = structuredClone(all);
        change(broken);
        const said = await check(broken);
        if (!said.some((line) => line.includes(expected))) throw new Error(`after ${change} expected ${expected}, but: ${said}`);
    }
    console.log(`self-test: ${faults.length} faults, each is found`);
}

const objects = JSON.parse(readFileSync(0, "utf8")).items;
if (selfTest) {
    await testItself(objects);
} else {
    const errors = await check(objects);
    for (const line of errors) console.log(line);
    process.exitCode = errors.length ? 1 : 0;
}
