// What the dashboard and the page of the documents share. A document becomes elements and texts, never HTML: nothing that it says
// can be a script.
"use strict";

const REQUEST_TIMEOUT_MS = 10_000;

const get = (address) => fetch(address, {credentials: "omit", redirect: "error", signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS)});

async function load(address) {
    const response = await get(address);
    if (!response.ok) {
        throw new Error(`${address} is answered with ${response.status}`);
    }
    return response;
}

function element(name, properties, ...children) {
    const created = Object.assign(document.createElement(name), properties);
    created.append(...children);
    return created;
}

// The fragment of a link to a heading, as GitHub makes it.
const anchorOf = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");

// The text under the heading that has this anchor, up to the next heading.
function sectionOf(text, anchor) {
    const section = text.split(/^(?=#{2,4} )/m).find((one) => anchorOf(one.match(/^#+ (.*)/)?.[1] ?? "") === anchor);
    return section?.replace(/^#.*\n+/, "").trim() ?? "";
}

// Where a link of a document leads: "" where this server does not have it. `page` shows the document itself.
function addressOf(link, page) {
    const [, name, anchor] = link.match(/^([^#]*)(.*)$/);
    if (/^https?:/.test(link)) {
        return link;
    }
    return name === "" ? page + anchor : /^[a-z-]+\.md$/.test(name) ? `runbook.html?${name}${anchor}` : "";
}

const INLINE = /(`[^`]+`|\*\*[^]+?\*\*|\*[^*\s][^*]*\*|\[(?:`[^`]*`|[^\]`])+\]\([^)\s]+\))/;

function inline(text, page, make) {
    return text.split(INLINE).map((part, at) => {
        if (at % 2 === 0) {
            return part;
        }
        if (part.startsWith("[")) {
            const [, label, link] = part.match(/^\[([^]*)\]\((.*)\)$/);
            const href = addressOf(link, page);
            return make(href ? "a" : "span", href ? {href} : {title: link}, ...inline(label, page, make));
        }
        const [name, marks] = part.startsWith("`") ? ["code", 1] : part.startsWith("**") ? ["strong", 2] : ["em", 1];
        const content = part.slice(marks, -marks);
        return make(name, {}, ...(name === "code" ? [content] : inline(content, page, make)));
    });
}

function takeWhile(lines, isTaken) {
    const end = lines.findIndex((line, at) => !isTaken(line, at));
    return lines.splice(0, end < 0 ? lines.length : end);
}

const ITEM = /^(?:- |\d+\. )/;
const BLOCK = /^(?:$|#{1,6} |```|\||- |1\. )/;

// The Markdown that docs/ uses: headings, paragraphs, lists, tables, code, links, stress.
function markdown(text, page = "", make = element) {
    const lines = text.split("\n");
    const texts = (content) => inline(content, page, make);
    const row = (cell, line) => make("tr", {}, ...line.replace(/^\| *| *\|$/g, "").split(/ *(?<!\\)\| */)
        .map((content) => make(cell, {}, ...texts(content.replaceAll("\\|", "|")))));
    const blocks = [];
    while (lines.length > 0) {
        const line = lines.shift();
        const [, level, heading] = line.match(/^(#{1,6}) (.*)/) ?? [];
        if (heading) {
            blocks.push(make(`h${level.length}`, {id: anchorOf(heading)}, ...texts(heading)));
        } else if (line.startsWith("```")) {
            blocks.push(make("pre", {}, takeWhile(lines, (one) => one !== "```").join("\n")));
            lines.shift();
        } else if (line.startsWith("|")) {
            const [, ...rows] = takeWhile(lines, (one) => one.startsWith("|"));
            blocks.push(make("table", {}, row("th", line), ...rows.map((one) => row("td", one))));
        } else if (ITEM.test(line)) {
            const width = line.match(ITEM)[0].length;
            const content = [line.slice(width), ...takeWhile(lines, (one, at) =>
                one.startsWith("  ") || (one === "" && lines[at + 1]?.startsWith("  "))).map((one) => one.slice(width))];
            const list = line.startsWith("- ") ? ["ul", {}] : ["ol", {start: Number.parseInt(line, 10)}];
            blocks.push(make(...list, make("li", {}, ...markdown(content.join("\n"), page, make))));
        } else if (line !== "") {
            blocks.push(make("p", {}, ...texts([line, ...takeWhile(lines, (one) => !BLOCK.test(one))].join("\n"))));
        }
    }
    return blocks;
}

// runbook.html, or runbook.html?running.md
async function showDocument(main) {
    const name = location.search.slice(1) || "runbook.md";
    try {
        main.append(...markdown(await (await load(name)).text()));
        document.title = `channeld: ${main.querySelector("h1").textContent}`;
        document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    } catch (error) {
        main.append(element("p", {role: "alert", textContent: error.message}));
    }
}

if (typeof document === "undefined") {
    module.exports = {addressOf, anchorOf, markdown, sectionOf};
} else if (document.getElementById("document")) {
    showDocument(document.getElementById("document"));
}
