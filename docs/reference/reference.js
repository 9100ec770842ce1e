// Shows the document of the server on this origin, or on the one of `api-base`, and lets requests be tried there. Without such a
// server (a file, a static site) the document that came with the page is shown, to be read only. Nothing else is ever requested:
// the Content-Security-Policy of index.html allows these origins alone.
"use strict";

const base = document.querySelector('meta[name="api-base"]').content;
const key = document.querySelector('meta[name="api-key"]').content; // that of a demonstration, which is no secret
const origin = base.startsWith("/") ? "" : new URL(base).origin;

// JSON.parse() rounds integers beyond 2^53, which identifiers may be. These functions work on the text instead.
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const MARK = "\ue000"; // a large integer in a parsed document is a string that begins with this

function indent(json) {
    JSON.parse(json); // throws what is wrong with it
    let out = "";
    let depth = 0;
    let last = "";
    const line = () => `\n${"  ".repeat(depth)}`;
    for (const [token] of json.matchAll(TOKEN)) {
        if (token === "}" || token === "]") {
            depth -= 1;
            out += last === "{" || last === "[" ? token : line() + token;
        } else {
            out += last === "{" || last === "[" || last === "," ? line() + token : token;
        }
        if (token === "{" || token === "[") {
            depth += 1;
        } else if (token === ":") {
            out += " ";
        }
        last = token;
    }
    return out;
}

// Bounds of 64 bits are left to the format `int64`.
function parse(json) {
    const marked = json.replace(TOKEN, (token) =>
        /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token);
    return JSON.parse(marked, (key, value) =>
        (key === "minimum" || key === "maximum") && String(value).startsWith(MARK) ? undefined : value);
}

// The sections of the introduction are folded, so that the operations come into sight.
function withFoldedSections(description) {
    const [first, ...sections] = description.split(/^## /m);
    return first + sections.map((section) => {
        const [, title, text] = section.match(/^(.*)\n([^]*)$/);
        return `<details><summary>${title}</summary>\n\n${text.trim()}\n\n</details>\n\n`;
    }).join("");
}

// The operations of a path that can be tried: not OPTIONS, whose header fields the browser alone sets. What tells their requests apart
// comes before the header fields that they share. Where a key is optional, there is no lock.
function operationsOf({parameters = [], options, ...operations}) {
    for (const operation of Object.values(operations)) {
        operation.parameters = [...parameters, ...(operation.parameters ?? [])];
        if (operation.security?.some((requirement) => Object.keys(requirement).length === 0)) {
            operation.security = [];
        }
    }
    return operations;
}

function prepare(json) {
    const content = parse(json);
    for (const [path, item] of Object.entries(content.paths)) {
        content.paths[path] = operationsOf(item);
    }
    content.tags = content.tags.filter(({name}) => name !== "Cross-origin requests");
    content.components.parameters.AcceptEncoding.description += " (Set by the browser: no effect on this page.)";
    content.servers.forEach((server) => {
        delete server.description;
        server.url = origin + server.url;
    });
    content.info.description = withFoldedSections(content.info.description);
    return content;
}

async function documentOfServer() {
    if (location.protocol === "file:") {
        return null;
    }
    try {
        const response = await fetch(`${base}openapi.json`, {credentials: "omit", redirect: "error"});
        return response.ok ? prepare(await response.text()) : null;
    } catch {
        return null;
    }
}

// Shows all digits of integers: in examples, whose large ones are marked, and in the content of responses.
const exactIntegers = ({React}) => ({
    wrapComponents: {
        HighlightCode: (Original) => (props) => {
            const text = props.children;
            return React.createElement(Original, props,
                typeof text === "string" ? text.replaceAll(RegExp(`"${MARK}(-?\\d+)"`, "g"), "$1") : text);
        },
        responseBody: (Original) => (props) => {
            const {content, contentType, getComponent} = props;
            if (typeof content !== "string" || !/^application\/json\b/.test(contentType)) {
                return React.createElement(Original, props);
            }
            let text = content;
            try {
                text = indent(content);
            } catch {
                // shown as it came
            }
            return React.createElement(getComponent("HighlightCode", true),
                {language: "json", downloadable: true, fileName: "response.json", canCopy: true}, text);
        },
    },
});

// References within the document need the address of one, and it may not be that of a file. Nothing is fetched from it.
const addressOfDocument = () => ({
    statePlugins: {spec: {wrapSelectors: {url: () => () => "http://reference.invalid/openapi.json"}}},
});

// Swagger UI gives its selects no names.
function nameSelects() {
    const reference = document.getElementById("reference");
    new MutationObserver(() => {
        for (const select of reference.querySelectorAll("select:not([aria-label])")) {
            select.ariaLabel = select.id === "servers" ? "Server" : select.classList.contains("content-type") ? "Media type" : "Example";
        }
    }).observe(reference, {childList: true, subtree: true});
}

function followColorScheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
    dark.addEventListener("change", apply);
    apply();
}

async function show() {
    followColorScheme();
    nameSelects();
    const served = await documentOfServer();
    document.getElementById("notice").hidden = served !== null;
    const page = SwaggerUIBundle({
        domNode: document.getElementById("reference"),
        spec: served ?? prepare(openapiDocument),
        plugins: [exactIntegers, ...(location.protocol === "file:" ? [addressOfDocument] : [])],
        supportedSubmitMethods: served ? ["get", "head"] : [],
        tryItOutEnabled: true,
        deepLinking: true,
        defaultModelsExpandDepth: 0,
        validatorUrl: null, // by default a service on the Internet
        queryConfigEnabled: false, // a link must not choose the document
        persistAuthorization: false, // a key is forgotten when the page is left
        onComplete: () => key && page.preauthorizeApiKey("ApiKeyHeader", key),
    });
}

show();
