/** Google Cloud Storage over its JSON API. The version of an object is its generation. */
import { z } from "zod";
import { type Outside, outside, tryOutside } from "../../../lib/json/outside.ts";
import { readText } from "../body.ts";
import type { Dialer } from "../dialer.ts";
import { SourceError } from "../types.ts";
import { patiently } from "./reader.ts";
import { changed, checkSpan, refusal, type Span, type Store, type StoredObject, wordOf } from "./store.ts";
import { refuseDots } from "./uri.ts";

/** Returns the header's value; undefined for anonymous requests. */
export type Authorize = (signal: AbortSignal) => Promise<string | undefined>;

type Settings = { bucket: string; endpoint: URL; authorize: Authorize; dialer: Dialer };

const ANSWER_BYTES = 32 * 2 ** 20;
const Digits = z.union([z.string().max(30), z.int()]);
const GoogleObject = z.object({
  name: z.string().max(4_000),
  size: Digits.transform(Number).pipe(z.int().min(0)).default(0),
  generation: Digits.transform(String),
});
const LARGE = { mostBytes: ANSWER_BYTES, parsing: "command" } as const;
const OBJECT = outside("an object of Google Cloud Storage", GoogleObject, LARGE);
const PAGE = outside(
  "a list of Google Cloud Storage",
  z.object({ items: z.array(GoogleObject).max(10_000).default([]), nextPageToken: z.string().max(10_000).optional() }),
  LARGE,
);
const Reasons = z.array(z.object({ reason: z.string().max(1_000) })).min(1);
const REFUSED = outside(
  "an error of Google Cloud Storage",
  z.object({ error: z.object({ errors: Reasons.max(1_000) }) }),
  LARGE,
);

type Client = Settings & { prefix: string; base: string };

export function gsStore(settings: Settings): Store {
  const { bucket, endpoint } = settings;
  const base = `${endpoint.href.replace(/\/$/, "")}/storage/v1/b/${encodeURIComponent(bucket)}/o`;
  const client: Client = { ...settings, prefix: `gs://${bucket}/`, base };
  return {
    prefix: client.prefix,
    stat: (key, signal) => stat(client, key, signal),
    list: (beginning, signal) => list(client, beginning, signal),
    open: (object, span, signal) => open(client, object, span, signal),
  };
}

async function ask({ authorize, dialer }: Client, url: string, headers: Record<string, string>, signal: AbortSignal) {
  const authorization = await authorize(signal);
  const more = authorization === undefined ? {} : { authorization };
  return await dialer.fetch(url, { headers: { ...headers, ...more }, signal });
}

type JsonRequest<T> = { url: string; form: Outside<T>; what: string };

async function json<T>(client: Client, { url, form, what }: JsonRequest<T>, signal: AbortSignal): Promise<T> {
  const { host } = client.endpoint;
  const response = await ask(client, url, { accept: "application/json" }, signal);
  const text = await readText(response, ANSWER_BYTES);
  if (response.status !== 200) throw refusal({ status: response.status, host, what, said: reasonOf(text) });
  const value = tryOutside(form, text);
  if (value !== undefined) return value;
  throw new SourceError(
    "unreachable",
    `${host} does not answer like Google Cloud Storage for ${what}. Check the endpoint`,
  );
}

async function stat(client: Client, key: string, signal: AbortSignal): Promise<StoredObject | undefined> {
  refuseDots(key);
  const url = `${client.base}/${encodeURIComponent(key)}?fields=name,size,generation`;
  try {
    return asObject(await json(client, { url, form: OBJECT, what: client.prefix + key }, signal));
  } catch (error) {
    // Without the right to list, Google answers a missing object as an unreadable one.
    if (error instanceof SourceError && isHidden(error)) return undefined;
    throw error;
  }
}

const isHidden = ({ code, param }: SourceError) =>
  code === "not_found" || (code === "unauthorized" && param === "/credentials");

async function* list(client: Client, beginning: string, signal: AbortSignal): AsyncGenerator<StoredObject[]> {
  const query = new URLSearchParams({ maxResults: "1000", fields: "items(name,size,generation),nextPageToken" });
  if (beginning !== "") query.set("prefix", beginning);
  for (;;) {
    const request = { url: `${client.base}?${query}`, form: PAGE, what: client.prefix + beginning };
    const page = await patiently(signal, () => json(client, request, signal));
    yield page.items.map(asObject);
    if (page.nextPageToken === undefined) return;
    query.set("pageToken", page.nextPageToken);
  }
}

async function open(client: Client, object: StoredObject, span: Span, signal: AbortSignal) {
  const what = client.prefix + object.key;
  refuseDots(object.key);
  const url = `${client.base}/${encodeURIComponent(object.key)}?alt=media&ifGenerationMatch=${object.etag}`;
  // With gzip, a compressed object is sent as stored. Otherwise Google decompresses it and ignores the range.
  const headers = { range: `bytes=${span.from}-${span.to - 1}`, "accept-encoding": "gzip" };
  const response = await ask(client, url, headers, signal);
  if (response.status !== 200 && response.status !== 206) {
    const said = reasonOf(await readText(response, 100_000));
    throw refusal({ status: response.status, host: client.endpoint.host, what, said });
  }
  const generation = response.headers.get("x-goog-generation") ?? object.etag;
  if (generation !== object.etag) {
    await response.stream.cancel();
    throw changed(what);
  }
  checkSpan(response, object, span, what);
  return response;
}

const asObject = ({ name, size, generation }: z.infer<typeof GoogleObject>): StoredObject => ({
  key: name,
  etag: generation,
  bytes: size,
});

const reasonOf = (text: string) => wordOf(tryOutside(REFUSED, text)?.error.errors[0]?.reason);
