// The client as a program:
//
//   node dist/main.js list                  every channel once: id, time of update and link, separated by tabs
//   node dist/main.js card ID               the card of a channel, as JSON
//   node dist/main.js link LINK             the same by its public link
//   node dist/main.js follow ID [SECONDS]   the card again each time that it has changed; one request every 10 seconds
//
// CHANNELS_URL is the base address (default http://127.0.0.1:8080/api/), CHANNELS_KEY the API key.
import { stringify } from "lossless-json";
import { ApiError, Channels } from "./client.js";

const USAGE = "usage: main.js list | card ID | link LINK | follow ID [SECONDS]";
const [command, word = "", seconds = "10", ...rest] = process.argv.slice(2);
const key = process.env["CHANNELS_KEY"] ?? "";
const api = new Channels(process.env["CHANNELS_URL"] ?? "http://127.0.0.1:8080/api/", key);
const isId = /^-?[0-9]{1,19}$/.test(word);
const isInterval = /^[0-9]{1,6}(\.[0-9]+)?$/.test(seconds) && Number(seconds) > 0;

try {
  if (key === "") {
    console.error("main.js: CHANNELS_KEY is not set: the API key");
    process.exitCode = 2;
  } else if (command === "list" && process.argv.length === 3) {
    for await (const { max_channel_id, updated_at, link } of api.list())
      console.log(`${max_channel_id}\t${updated_at ?? ""}\t${link ?? ""}`);
  } else if (command === "card" && isId && process.argv.length === 4) {
    console.log(stringify(await api.card(BigInt(word))));
  } else if (command === "link" && process.argv.length === 4) {
    console.log(stringify(await api.cardByLink(word)));
  } else if (command === "follow" && isId && isInterval && rest.length === 0) {
    for await (const card of api.follow(BigInt(word), Number(seconds) * 1000)) console.log(stringify(card));
  } else {
    console.error(USAGE);
    process.exitCode = 2;
  }
} catch (error) {
  console.error("main.js:", error instanceof ApiError ? error.message : error);
  process.exitCode = 1;
}
