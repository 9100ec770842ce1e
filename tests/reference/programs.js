// What the test of the reference page runs: a redis-server with sample channels, a channeld, and nginx in front, which serves
// the page as docker-compose.yml does. All of them end with the test.
"use strict";

const childProcess = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");

const ROOT = path.join(__dirname, "..", "..");
const TIMEOUT_MS = 30_000;

// Beyond 2^53: a page that reads it as a double shows another number.
const LARGE_ID = "9223372036854775807";

async function freePorts(count) {
    const servers = await Promise.all(Array.from({length: count}, () => new Promise((resolve, reject) => {
        const server = net.createServer();
        server.once("error", reject).listen(0, "127.0.0.1", () => resolve(server));
    })));
    const ports = servers.map((server) => server.address().port);
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    return ports;
}

async function waitFor(what, condition) {
    const deadline = Date.now() + TIMEOUT_MS;
    while (!(await condition().catch(() => false))) {
        if (Date.now() > deadline) {
            throw new Error(`${what} is not ready after ${TIMEOUT_MS} ms`);
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

class Programs {
    constructor(folder, channeld, channelctl) {
        Object.assign(this, {folder, channeld, channelctl, started: []});
    }

    async start() {
        const [web, api, admin] = await freePorts(3);
        const redis = path.join(this.folder, "redis.sock");
        this.environment = {...process.env, CHANNELD_REDIS_URL: `unix://${redis}`};
        this.origin = `http://127.0.0.1:${web}`;
        this.base = "/v1/"; // not the default: the page is told, and the served document names it
        this.page = path.join(this.folder, "share", "docs");

        this.spawn("redis-server", "--port", "0", "--unixsocket", redis, "--save", "", "--dir", this.folder);
        await waitFor("redis-server", async () => fs.existsSync(redis));
        const samples = this.run([this.channelctl, "sample", "300"]);
        const large = samples.split("\n", 1)[0]
            .replace(/"max_channel_id":-?\d+/, `"max_channel_id":${LARGE_ID}`)
            .replace(/("link":"[^"]*)"/, '$1_large"');
        this.run([this.channelctl, "load", "-"], `${samples}${large}\n`);
        this.key = this.run([this.channelctl, "keys", "issue"]).trim();
        this.server = this.spawn(this.channeld, "--listen", `127.0.0.1:${api}`, "--admin-listen", `127.0.0.1:${admin}`,
            "--base-path", this.base, "--drain-delay", "0s");
        await waitFor("channeld", async () => (await fetch(`http://127.0.0.1:${admin}/readyz`)).ok);

        this.run([path.join(ROOT, "scripts", "reference"), "--base-path", this.base, this.page]);
        this.spawn("nginx", "-e", "stderr", "-c", this.configuration(web, api), "-g", "daemon off;");
        await waitFor("nginx", async () => (await fetch(`${this.origin}/docs/`)).ok);
    }

    // The page's part is that of the composition, but for the folder.
    configuration(web, api) {
        const here = this.folder;
        const reference = fs.readFileSync(path.join(ROOT, "deploy", "compose", "nginx", "reference.conf"), "utf8");
        fs.writeFileSync(path.join(here, "reference.conf"), reference.replace("/usr/share/channeld", path.join(here, "share")));
        const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map((name) => `${name}_temp_path ${here}/${name};`).join(" ");
        fs.writeFileSync(path.join(here, "nginx.conf"), `
            ${process.getuid() === 0 ? "user root;" : ""}
            pid ${here}/nginx.pid;
            events {}
            http {
                access_log off;
                ${temporary}
                server {
                    listen 127.0.0.1:${web};
                    include ${here}/reference.conf;
                    location / { proxy_pass http://127.0.0.1:${api}; }
                }
            }`);
        return path.join(here, "nginx.conf");
    }

    spawn(command, ...args) {
        const log = fs.openSync(path.join(this.folder, `${path.basename(command)}.log`), "w");
        const child = childProcess.spawn(command, args, {env: this.environment, stdio: ["ignore", log, log]});
        child.ended = new Promise((resolve) => child.once("exit", resolve).once("error", resolve));
        this.started.push(child);
        return child;
    }

    run([command, ...args], input = "") {
        return childProcess.execFileSync(command, args, {env: this.environment, input, encoding: "utf8",
            stdio: ["pipe", "pipe", "inherit"]});
    }

    async stop(child) {
        const killer = setTimeout(() => child.kill("SIGKILL"), 10_000);
        child.kill();
        await child.ended;
        clearTimeout(killer);
    }

    async end() {
        for (const child of this.started.reverse()) {
            await this.stop(child);
        }
    }
}

module.exports = {LARGE_ID, Programs, ROOT};
