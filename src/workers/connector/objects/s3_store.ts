/**
 * The S3 protocol with Amazon's client, whose requests all pass the guard. Every setting is given explicitly, so that
 * the client searches nothing: no environment, no ~/.aws, no metadata service.
 */
import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  ListObjectsV2Command,
  S3Client,
  type S3ClientConfig,
} from "@aws-sdk/client-s3";
import { readBytes } from "../body.ts";
import type { Dialer } from "../dialer.ts";
import { SourceError } from "../types.ts";
import { patiently } from "./reader.ts";
import { refusal, type Span, type Store, type StoredObject, wordOf } from "./store.ts";
import { refuseDots } from "./uri.ts";

export type S3Settings = {
  bucket: string;
  endpoint: URL;
  region: string;
  pathStyle: boolean;
  /** Undefined for unsigned requests. */
  keys: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | undefined;
  /** The prefix in messages: s3://bucket/ */
  prefix: string;
  /** The text that tells users how to set the region. */
  regionHint: string;
};

const ANSWER_BYTES = 32 * 2 ** 20; // a page of 1,000 keys of 1,024 bytes is under 2 MiB

type SdkRequest = {
  method: string;
  protocol: string;
  hostname: string;
  port?: number;
  path: string;
  query: Record<string, string | string[] | null>;
  headers: Record<string, string>;
};

function guardedHandler(dialer: Dialer) {
  return {
    metadata: { handlerProtocol: "http/1.1" },
    async handle(request: SdkRequest, { abortSignal }: { abortSignal: AbortSignal }) {
      const { "user-agent": _agent, "x-amz-user-agent": _telling, ...headers } = request.headers;
      const response = await dialer.fetch(urlOf(request), { method: request.method, headers, signal: abortSignal });
      const isObject = request.method === "GET" && request.query["list-type"] === undefined && response.status < 300;
      return {
        response: {
          statusCode: response.status,
          headers: Object.fromEntries(response.headers),
          body: isObject ? response.stream : await readBytes(response, ANSWER_BYTES),
        },
      };
    },
    destroy() {},
    updateHttpClientConfig() {},
    httpHandlerConfigs: () => ({}),
  };
}

function urlOf({ protocol, hostname, port, path, query }: SdkRequest): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => `${escaped(name)}=${escaped(each ?? "")}`),
  );
  return `${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}${pairs.length === 0 ? "" : `?${pairs.join("&")}`}`;
}

/** Escapes as the signature requires. */
const escaped = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function sdkOf({ endpoint, region, pathStyle, keys }: S3Settings, dialer: Dialer): S3Client {
  const client = new S3Client({
    endpoint: endpoint.href,
    region,
    forcePathStyle: pathStyle,
    credentials: keys ?? { accessKeyId: "", secretAccessKey: "" },
    ...(keys ? {} : { signer: { sign: async (request: unknown) => request } }),
    requestHandler: guardedHandler(dialer),
    maxAttempts: 1, // this file retries by itself
    retryMode: "standard",
    defaultsMode: "standard",
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    useFipsEndpoint: false,
    useDualstackEndpoint: false,
    useArnRegion: false,
    disableS3ExpressSessionAuth: true,
    disableMultiregionAccessPoints: true,
    followRegionRedirects: false,
    authSchemePreference: ["sigv4"],
    sigv4aSigningRegionSet: [region],
    userAgentAppId: async () => undefined,
    logger: { trace() {}, debug() {}, info() {}, warn() {}, error() {} },
  } as unknown as S3ClientConfig); // the handler and the signer implement only the called parts of their interfaces
  client.middlewareStack.remove("getUserAgentMiddleware");
  return client;
}

type Client = { sdk: S3Client; settings: S3Settings };

export function s3Store(settings: S3Settings, dialer: Dialer): Store {
  const client: Client = { settings, sdk: sdkOf(settings, dialer) };
  return {
    prefix: settings.prefix,
    stat: (key, signal) => stat(client, key, signal),
    list: (beginning, signal) => list(client, beginning, signal),
    open: (object, span, signal) => open(client, object, span, signal),
  };
}

async function stat({ sdk, settings }: Client, Key: string, signal: AbortSignal): Promise<StoredObject | undefined> {
  refuseDots(Key);
  try {
    const head = await sdk.send(new HeadObjectCommand({ Bucket: settings.bucket, Key }), { abortSignal: signal });
    return { key: Key, etag: head.ETag ?? "", bytes: head.ContentLength ?? 0 };
  } catch (error) {
    const why = explained(error, settings.prefix + Key, settings, signal);
    // Without the right to list, S3 answers a missing key as an unreadable one.
    if (why instanceof SourceError && ["not_found", "unauthorized"].includes(why.code)) return undefined;
    throw why;
  }
}

async function* list({ sdk, settings }: Client, Prefix: string, signal: AbortSignal): AsyncGenerator<StoredObject[]> {
  let token: string | undefined;
  do {
    const input = { Bucket: settings.bucket, Prefix, ContinuationToken: token, MaxKeys: 1000 };
    const page = await patiently(signal, () =>
      sdk.send(new ListObjectsV2Command(input), { abortSignal: signal }).catch((error: unknown) => {
        throw explained(error, settings.prefix + Prefix, settings, signal);
      }),
    );
    yield (page.Contents ?? []).map(({ Key = "", ETag = "", Size = 0 }) => ({ key: Key, etag: ETag, bytes: Size }));
    token = page.IsTruncated ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

async function open({ sdk, settings }: Client, { key, etag }: StoredObject, { from, to }: Span, signal: AbortSignal) {
  const what = settings.prefix + key;
  refuseDots(key);
  const input = { Bucket: settings.bucket, Key: key, Range: `bytes=${from}-${to - 1}`, IfMatch: etag };
  const answer = await sdk.send(new GetObjectCommand(input), { abortSignal: signal }).catch((error: unknown) => {
    throw explained(error, what, settings, signal);
  });
  return { stream: bodyOf(answer, from, what) };
}

function bodyOf(
  { Body, ContentRange }: GetObjectCommandOutput,
  from: number,
  what: string,
): ReadableStream<Uint8Array> {
  const begin = /^bytes (\d+)-/.exec(ContentRange ?? "")?.[1];
  if (!Body || Number(begin ?? 0) !== from)
    throw new SourceError("broken", `${what}: the store sent other bytes than requested. Try again`);
  return Body as unknown as ReadableStream<Uint8Array>; // the handler's stream, with methods added by the client
}

type SdkError = Error & {
  $metadata?: { httpStatusCode?: number };
  $response?: { headers?: Record<string, string> };
  Region?: string;
};

function explained(error: unknown, what: string, settings: S3Settings, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof SourceError) return error;
  const { name, $metadata, $response, Region } = error as SdkError;
  const status = $metadata?.httpStatusCode;
  const { host } = settings.endpoint;
  if (status === undefined || status < 300)
    return new SourceError(
      "unreachable",
      `${host} does not answer like S3 for ${what}. Check the endpoint`,
      "/source_uri",
    );
  const region = wordOf($response?.headers?.["x-amz-bucket-region"]) ?? wordOf(Region);
  if (status === 301 || status === 307 || (status === 400 && region !== undefined && region !== settings.region))
    return new SourceError(
      "invalid_source",
      region === undefined
        ? `${host} redirects ${what} to another endpoint: ${settings.regionHint}REGION`
        : `The bucket of ${what} is in the region ${region}, not ${settings.region}: ${settings.regionHint}${region}`,
      "/source_uri",
    );
  return refusal({ status, host, what, said: said(name) });
}

/** A HEAD answer has no body, and the client invents an error name. */
const said = (name: string) =>
  ["Error", "Unknown", "UnknownError", `${403}`].includes(name) ? undefined : wordOf(name);
