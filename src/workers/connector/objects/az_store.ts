/** Azure Blob Storage over REST, with one fixed version of its protocol. */
import type { OpenedResponse } from "../../../platform/network/http_client.ts";
import { readText } from "../body.ts";
import type { Dialer } from "../dialer.ts";
import { SourceError } from "../types.ts";
import { type AzKey, sharedKey } from "./az_sign.ts";
import { patiently } from "./reader.ts";
import { checkSpan, refusal, type Span, type Store, type StoredObject, wordOf } from "./store.ts";
import { refuseDots } from "./uri.ts";

const VERSION = "2021-12-02";
const ANSWER_BYTES = 32 * 2 ** 20;

type Settings = {
  account: string;
  container: string;
  /** The address before the container. */
  endpoint: URL;
  key: AzKey | undefined;
  /** The query without a question mark. */
  sas: string | undefined;
  dialer: Dialer;
};

type SendRequest = (
  method: string,
  url: URL,
  headers: Record<string, string>,
  signal: AbortSignal,
) => Promise<OpenedResponse>;
type Client = { prefix: string; host: string; base: string; ask: SendRequest };

export function azStore(settings: Settings): Store {
  const { account, container, endpoint } = settings;
  const client: Client = {
    prefix: `az://${account}/${container}/`,
    host: endpoint.host,
    base: `${endpoint.href.replace(/\/$/, "")}/${container}`,
    ask: asking(settings),
  };
  return {
    prefix: client.prefix,
    stat: (name, signal) => stat(client, name, signal),
    list: (beginning, signal) => list(client, beginning, signal),
    open: (object, span, signal) => open(client, object, span, signal),
  };
}

function asking({ key, sas, dialer }: Settings): SendRequest {
  return (method, url, sent, signal) => {
    if (sas !== undefined) for (const [name, value] of new URLSearchParams(sas)) url.searchParams.set(name, value);
    const headers = { ...sent, "x-ms-version": VERSION, "x-ms-date": new Date().toUTCString() };
    const authorization = key ? { authorization: sharedKey(key, method, url, headers) } : {};
    return dialer.fetch(url, { method, headers: { ...headers, ...authorization }, signal });
  };
}

function blobUrl({ base }: Client, name: string): URL {
  refuseDots(name);
  return new URL(`${base}/${name.split("/").map(encodeURIComponent).join("/")}`);
}

async function stat(client: Client, name: string, signal: AbortSignal): Promise<StoredObject | undefined> {
  const { status, headers, stream } = await client.ask("HEAD", blobUrl(client, name), {}, signal);
  await stream.cancel();
  const bytes = Number(headers.get("content-length") ?? 0);
  if (status === 200) return { key: name, etag: headers.get("etag") ?? "", bytes };
  // Without the right to list, Azure may answer a missing blob as an unreadable one.
  if (status === 404 || status === 403 || status === 401) return undefined;
  throw refusal({ status, host: client.host, what: client.prefix + name, said: errorCode(headers) });
}

async function* list(client: Client, beginning: string, signal: AbortSignal): AsyncGenerator<StoredObject[]> {
  const what = client.prefix + beginning;
  for (let marker = ""; ; ) {
    const url = new URL(`${client.base}?restype=container&comp=list&maxresults=1000`);
    if (beginning !== "") url.searchParams.set("prefix", beginning);
    if (marker !== "") url.searchParams.set("marker", marker);
    const xml = await patiently(signal, async () => {
      const response = await client.ask("GET", url, {}, signal);
      const text = await readText(response, ANSWER_BYTES);
      if (response.status === 200) return text;
      throw refusal({ status: response.status, host: client.host, what, said: errorCode(response.headers) });
    });
    if (!xml.includes("<EnumerationResults"))
      throw new SourceError("unreachable", `${client.host} does not answer like Azure for ${what}. Check the endpoint`);
    yield blobsOf(xml);
    marker = inner(xml, "NextMarker") ?? "";
    if (marker === "") return;
  }
}

async function open(client: Client, object: StoredObject, span: Span, signal: AbortSignal) {
  const what = client.prefix + object.key;
  const headers = { range: `bytes=${span.from}-${span.to - 1}`, "if-match": object.etag };
  const response = await client.ask("GET", blobUrl(client, object.key), headers, signal);
  if (response.status !== 200 && response.status !== 206) {
    await response.stream.cancel();
    throw refusal({ status: response.status, host: client.host, what, said: errorCode(response.headers) });
  }
  checkSpan(response, object, span, what);
  return response;
}

const errorCode = (headers: Headers) => wordOf(headers.get("x-ms-error-code"));

function blobsOf(xml: string): StoredObject[] {
  return [...xml.matchAll(/<Blob>([\s\S]*?)<\/Blob>/g)].map(([, blob = ""]) => {
    const name = inner(blob, "Name") ?? "";
    const etag = inner(blob, "Etag") ?? "";
    return {
      key: /<Name Encoded="true">/.test(blob) ? decodeURIComponent(name) : name,
      etag: etag.startsWith('"') ? etag : `"${etag}"`, // request headers need the quotes
      bytes: Number(inner(blob, "Content-Length") ?? 0),
    };
  });
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function inner(xml: string, tag: string): string | undefined {
  const text = new RegExp(`<${tag}(?: [^>]*)?>([^<]*)</${tag}>`).exec(xml)?.[1];
  return text?.replace(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (all, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return ENTITIES[name] ?? all;
    return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });
}
