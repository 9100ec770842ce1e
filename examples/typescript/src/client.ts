// A client of the API. Its types are made from the OpenAPI document (npm run types), so what does not fit the API does
// not compile.
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "lossless-json";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
export type Card = Schemas["Channel"];
export type Summary = Schemas["ChannelSummary"];

const ATTEMPTS = 5; // of one request
const TIMEOUT_MS = 10_000;
const WAIT_MAX_MS = 60_000; // a longer Retry-After is an error
const MAY_PASS = new Set([408, 429, 500, 502, 503, 504]);

/** A response that is an error, and stays one when the request is repeated. */
export class ApiError extends Error {
  constructor(readonly status: number, body: Schemas["Error"] | undefined) {
    super(`${status} ${body?.error ?? "not a response of the API"}`);
  }
}

export class Channels {
  private readonly api;

  constructor(baseUrl: string, key: string) {
    this.api = createClient<paths>({ baseUrl, headers: { "X-Api-Key": key }, fetch: fetchWithRetries });
  }

  /** Each channel once. While the list changes, its pages shift: what moves to a later page is met again there. */
  async *list(): AsyncGenerator<Summary> {
    const seen = new Set<bigint | null>();
    for (let page = 1n, more = true; more; page++) {
      const { data, error, response } = await this.api.GET("/channels/", { params: { query: { page } }, parseAs: "text" });
      const content = contentOf<Schemas["ChannelList"]>(data, error, response);
      for (const channel of content.data) {
        if (seen.has(channel.max_channel_id)) continue;
        seen.add(channel.max_channel_id);
        yield channel;
      }
      more = content.pagination.has_next;
    }
  }

  async card(id: bigint): Promise<Card> {
    const params = { path: { channel_id: id } };
    const { data, error, response } = await this.api.GET("/channel/by-id/{channel_id}/", { params, parseAs: "text" });
    return contentOf<Schemas["ChannelCard"]>(data, error, response).data;
  }

  async cardByLink(link: string): Promise<Card> {
    const params = { query: { link } }; // the client encodes it, as encodeURIComponent() does
    const { data, error, response } = await this.api.GET("/channel/by-link/", { params, parseAs: "text" });
    return contentOf<Schemas["ChannelCard"]>(data, error, response).data;
  }

  /** The card, and again each time that it has changed. */
  async *follow(id: bigint, intervalMs: number): AsyncGenerator<Card> {
    let tag: string | undefined;
    for (;;) {
      const params = { path: { channel_id: id }, header: { "If-None-Match": tag } };
      const { data, error, response } = await this.api.GET("/channel/by-id/{channel_id}/", { params, parseAs: "text" });
      if (response.status !== 304) {
        const card = contentOf<Schemas["ChannelCard"]>(data, error, response).data;
        tag = response.headers.get("ETag") ?? undefined;
        yield card;
      }
      await sleep(intervalMs);
    }
  }
}

/** The content of a success, with every integer as a bigint: JSON.parse() rounds those beyond 2^53. */
function contentOf<Content>(text: string | undefined, error: Schemas["Error"] | undefined, response: Response): Content {
  if (text === undefined) throw new ApiError(response.status, error);
  let content: unknown;
  try {
    content = parse(text, undefined, BigInt);
  } catch {
    // no JSON: a proxy or a captive portal may have sent it
  }
  if (typeof content !== "object" || content === null || !("data" in content)) throw new ApiError(response.status, undefined);
  return content as Content;
}

async function fetchWithRetries(request: Request): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    let waitMs = 250 * 2 ** (attempt - 1);
    try {
      // The API sends no redirects: whoever does would get the key.
      const response = await fetch(request.clone(), { redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
      const content = await response.arrayBuffer(); // here, since the connection may be lost before its end
      const retryAfterMs = (Number(response.headers.get("Retry-After")) || 0) * 1000;
      if (!MAY_PASS.has(response.status) || attempt === ATTEMPTS || retryAfterMs > WAIT_MAX_MS)
        return new Response(content.byteLength > 0 ? content : null, response);
      waitMs = Math.max(waitMs, retryAfterMs);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
    // As long as the server says, but longer each time; and not all clients at the same moment.
    await sleep(waitMs * (1 + Math.random() / 2));
  }
}
