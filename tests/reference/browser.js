// A headless Chromium for the tests of pages, and what no page may do in it.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");

const DESKTOP = {width: 1280, height: 900};
const PHONE = {width: 360, height: 740};

// A page, and what must not happen on it: a request to another origin, an error, a violation of the policy.
class Page {
    static pictures = null; // the folder for them
    static axe = null; // the source of axe-core

    static async open(browser, address, {origin = new URL(address).origin, expected = [], ...options} = {}) {
        const reader = new this();
        Object.assign(reader, {faults: [], requests: []});
        reader.context = await browser.newContext({viewport: DESKTOP, colorScheme: "light", ...options});
        reader.page = await reader.context.newPage();
        reader.page.setDefaultTimeout(60_000);
        reader.page.on("request", (request) => {
            reader.requests.push(request.url());
            if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) {
                reader.faults.push(`request to ${request.url()}`);
            }
        });
        reader.page.on("pageerror", (error) => reader.faults.push(String(error)));
        reader.page.on("console", (message) => {
            if (message.type() === "error" && !expected.some((text) => message.text().includes(text))) {
                reader.faults.push(message.text());
            }
        });
        await reader.page.goto(address);
        return reader;
    }

    async checkWidth() {
        const [content, window] = await this.page.evaluate(() =>
            [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(content <= window, `the page scrolls sideways: ${content} of ${window} pixels`);
    }

    // Nothing that keeps readers out: names of fields, contrast, and what else WCAG asks for and a program can see.
    async checkAccessibility({except = []} = {}) {
        await this.page.evaluate(Page.axe);
        const {violations} = await this.page.evaluate((rules) => window.axe.run({
            runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
            rules: Object.fromEntries(rules.map((rule) => [rule, {enabled: false}])),
        }), except);
        const found = violations.flatMap(({id, nodes}) =>
            nodes.map(({target, failureSummary}) => `${id}: ${target}: ${failureSummary.replace(/\s+/g, " ")}`));
        assert.deepEqual(found, []);
    }

    async picture(name, options = {}) {
        if (Page.pictures) {
            await this.page.screenshot({path: path.join(Page.pictures, `${name}.png`), ...options});
        }
    }

    async close() {
        assert.deepEqual(this.faults, []);
        await this.context.close();
    }
}

// takeOption(["--only", "x", "y"], "--only") is "x" and leaves ["y"]
function takeOption(args, name) {
    const at = args.indexOf(name);
    return at < 0 ? null : args.splice(at, 2)[1];
}

// Runs the functions whose name matches the expression `only`, one after the other, in a browser.
async function runChecks(deps, checks, server, only) {
    const folder = path.join(deps, "npm", "playwright-core");
    const axe = path.join(deps, "npm", "axe-core", "axe.min.js");
    if (!fs.existsSync(folder) || !fs.existsSync(axe) || !fs.existsSync("/usr/bin/chromium")) {
        throw new Error("no browser, or nothing that drives it; scripts/setup --browser installs both");
    }
    Page.axe = fs.readFileSync(axe, "utf8");
    if (Page.pictures) {
        fs.mkdirSync(Page.pictures, {recursive: true});
    }
    const browser = await require(path.resolve(folder)).chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: process.getuid() === 0 ? ["--no-sandbox"] : [],
    });
    try {
        for (const check of checks.filter(({name}) => new RegExp(only ?? "").test(name))) {
            await check(browser, server);
            console.log(`ok ${check.name}`);
        }
    } finally {
        await browser.close();
    }
}

module.exports = {Page, PHONE, runChecks, takeOption};
