// What the tests of the pages run: a redis-server with sample channels, a channeld, and nginx in front, which serves the pages as
// docker-compose.yml does, if wanted with a Prometheus behind it. All of them end with the test.
"use strict";

const childProcess = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");

const ROOT = path.join(__dirname, "..", "..");
const TIMEOUT_MS = 60_000;

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
    let failure = null;
    while (!(await condition().catch((error) => (failure = error, false)))) {
        if (Date.now() > deadline) {
            throw new Error(`${what} is not ready after ${TIMEOUT_MS} ms`, {cause: failure});
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

class Programs {
    // With the path of a Prometheus there are the dashboard and the start page, too.
    constructor(folder, channeld, channelctl, prometheus = null) {
        Object.assign(this, {folder, channeld, channelctl, prometheus, started: []});
    }

    async start() {
        const [web, api, admin, metrics] = await freePorts(4);
        const redis = path.join(this.folder, "redis.sock");
        this.environment = {...process.env, CHANNELD_REDIS_URL: `unix://${redis}`};
        this.origin = `http://127.0.0.1:${web}`;
        this.base = "/v1/"; // not the default: the page is told, and the served document names it
        this.page = path.join(this.folder, "share", "docs");

        this.spawn("redis-server", "--port", "0", "--unixsocket", redis, "--save", "", "--dir", this.folder);
        await waitFor("redis-server", async () => fs.existsSync(redis));
        const samples = this.run([this.channelctl, "sample", "1000"]);
        const large = samples.split("\n", 1)[0]
            .replace(/"max_channel_id":-?\d+/, `"max_channel_id":${LARGE_ID}`)
            .replace(/("link":"[^"]*)"/, '$1_large"');
        this.run([this.channelctl, "load", "-"], `${samples}${large}\n`);
        this.key = this.run([this.channelctl, "keys", "issue"]).trim();
        this.server = this.spawn(this.channeld, "--listen", `127.0.0.1:${api}`, "--admin-listen", `127.0.0.1:${admin}`,
            "--base-path", this.base, "--drain-delay", "0s");
        await waitFor("channeld", async () => (await fetch(`http://127.0.0.1:${admin}/readyz`)).ok);

        this.run([path.join(ROOT, "scripts", "reference"), "--base-path", this.base, this.page]);
        const index = path.join(this.page, "index.html"); // as in the demonstration
        fs.writeFileSync(index, fs.readFileSync(index, "utf8").replace('name="api-key" content=""', `name="api-key" content="${this.key}"`));
        if (this.prometheus) {
            this.startPrometheus(metrics, admin);
            this.run([path.join(ROOT, "scripts", "dashboard"), path.join(this.folder, "share", "dashboard")]);
            fs.cpSync(path.join(ROOT, "deploy", "compose", "start"), path.join(this.folder, "share", "start"), {recursive: true});
        }
        this.spawn("nginx", "-e", "stderr", "-c", this.configuration(web, api, admin, metrics), "-g", "daemon off;");
        await waitFor("nginx", async () => (await fetch(`${this.origin}/docs/`)).ok);
        if (this.prometheus) {
            await waitFor("prometheus", async () => (await fetch(`${this.origin}/prometheus/-/ready`)).ok);
        }
    }

    // As in the composition, but in a hurry. JSON is YAML.
    startPrometheus(port, admin) {
        const file = path.join(this.folder, "prometheus.yml");
        fs.writeFileSync(file, JSON.stringify({
            global: {scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s"},
            rule_files: [path.join(ROOT, "deploy", "prometheus", "rules.yml")],
            scrape_configs: [{job_name: "channeld", static_configs: [{targets: [`127.0.0.1:${admin}`]}]}],
        }));
        this.prometheusCommand = [this.prometheus, `--config.file=${file}`, `--storage.tsdb.path=${this.folder}/data`,
            `--web.listen-address=127.0.0.1:${port}`, "--web.external-url=/prometheus/", "--web.cors.origin=none",
            "--query.lookback-delta=30s", "--log.level=warn"];
        this.prometheusServer = this.spawn(...this.prometheusCommand);
    }

    // The pages' part is that of the composition, but for the folder and the addresses.
    configuration(web, api, admin, metrics) {
        const here = this.folder;
        const operator = this.prometheus ? "include operator.conf;" : "";
        for (const name of ["reference.conf", "operator.conf"]) {
            const text = fs.readFileSync(path.join(ROOT, "deploy", "compose", "nginx", name), "utf8");
            fs.writeFileSync(path.join(here, name), text
                .replaceAll("/usr/share/channeld", path.join(here, "share"))
                .replaceAll("root /tmp;", `root ${path.join(here, "share")};`)
                .replace("set $prometheus prometheus:9090;", `set $prometheus 127.0.0.1:${metrics};`)
                .replace("$project-channeld-$number:8081", `127.0.0.1:${admin}`)
                .replaceAll("$upgrade_connection", "close"));
        }
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
                    include reference.conf;
                    ${operator}
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

module.exports = {LARGE_ID, Programs, ROOT, waitFor};
