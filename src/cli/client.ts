import { connectionFailure } from "../lib/net/connection_failure.ts";

type Details = ErrorOptions & { param?: string | null; requestId?: string | null; place?: string | undefined };

/** An error of the API. `api_words.ts` puts its message into the words of the command line. */
export class ApiError extends Error {
  /** JSON pointer of the field in the request, or the name of a parameter. */
  readonly param: string | null;
  readonly requestId: string | null;
  /** File, line and key that set the field. */
  readonly place: string | undefined;
  constructor(
    message: string,
    /** HTTP status; 0 if the server could not be reached or the connection broke. */
    readonly status: number,
    readonly code: string | null = null,
    { param = null, requestId = null, place, ...options }: Details = {},
  ) {
    super(message, options);
    this.name = "ApiError";
    this.param = param;
    this.requestId = requestId;
    this.place = place;
  }
}

export type Answer<T> = { status: number; body: T; headers: Headers };
export type ServerEvent = { id: string | undefined; event: string; data: unknown };
type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type StreamOptions = {
  body?: unknown;
  onComment?: (text: string) => void;
  /** Called when the server has answered and the stream begins. */
  onOpen?: () => void;
  /** Called with an id to resume from, which the server may send before the first event. */
  onCursor?: (id: string) => void;
};
/** A raw request body of any length. A stream is read as fast as the server accepts it. */
export type Body = Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
type CallOptions = { headers?: Record<string, string>; signal?: AbortSignal; raw?: Body };

export type Client = {
  call: <T>(method: Method, path: string, body?: unknown, options?: CallOptions) => Promise<Answer<T>>;
  /** The bytes of a response, as they arrive. */
  download: (path: string, signal: AbortSignal) => AsyncGenerator<Uint8Array>;
  /** Server-sent events until the server ends the stream or `signal` aborts. A request with a body is a POST. */
  stream: (path: string, signal: AbortSignal, options?: StreamOptions) => AsyncGenerator<ServerEvent>;
};

/** Origin → the socket of the server on this machine that answers for it. */
const SOCKETS = new Map<string, string>();
export const useSocket = (origin: string, path: string) => void SOCKETS.set(origin, path);

export function createClient({ url, key }: { url: string; key?: string }): Client {
  const headersOf = (more: Record<string, string> = {}) => ({
    ...(key ? { authorization: `Bearer ${key}` } : {}),
    ...more,
  });

  const send = (path: string, init: BunFetchRequestInit) => request(url + path, init);

  return {
    async call<T>(method: Method, path: string, body?: unknown, { headers, signal, raw }: CallOptions = {}) {
      const json = body === undefined ? {} : { "content-type": "application/json" };
      const response = await send(path, {
        method,
        headers: headersOf({ ...json, ...headers }),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(raw === undefined ? {} : { body: raw, timeout: false }), // the server checks a large file before it answers
        ...(signal ? { signal } : {}),
      });
      const text = await response.text().catch((cause) => {
        throw signal?.aborted ? cause : brokenAt(url, cause);
      });
      return { status: response.status, body: readBody<T>(url, text), headers: response.headers };
    },
    async *download(path, signal) {
      yield* bytesOf(await send(path, { headers: headersOf(), signal, timeout: false }), signal);
    },
    async *stream(path, signal, { body, onComment, onOpen, onCursor } = {}) {
      const headers = headersOf({ accept: "text/event-stream", "content-type": "application/json" });
      const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      // Waking a parked deployment may take minutes.
      const response = await send(path, { headers, signal, ...post, timeout: false });
      onOpen?.();
      try {
        if (response.body) yield* readEvents(response.body, onComment, onCursor);
      } catch (cause) {
        throw signal.aborted || cause instanceof ApiError ? cause : brokenAt(url, cause);
      }
    },
  };
}

/**
 * Throws an ApiError unless the status is 2xx. Errors name only the origin: the rest of an address may be a signed
 * permission.
 */
export async function request(address: string, init: BunFetchRequestInit): Promise<Response> {
  let response: Response;
  const { origin } = new URL(address);
  const unix = SOCKETS.get(origin);
  try {
    response = await fetch(address, { ...init, ...(unix === undefined ? {} : { unix }) });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new ApiError(
      `Cannot reach ${origin}: ${connectionFailure(cause)}. Check that a server runs there.`,
      0,
      null,
      {
        cause,
      },
    );
  }
  if (response.ok) return response;
  throw await failureOf(response);
}

/** The bytes of a response as they arrive. A broken connection is an error, not the end of the data. */
export async function* bytesOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    if (response.body) yield* response.body;
  } catch (cause) {
    throw signal.aborted ? cause : brokenAt(new URL(response.url).origin, cause);
  }
}

const brokenAt = (url: string, cause: unknown) =>
  new ApiError(`The connection to ${url} broke: ${connectionFailure(cause)}`, 0, null, { cause });

/** Every Verk response has a field `object`. A page of another program at that address does not. */
function readBody<T>(url: string, text: string): T {
  const body = parsed(text) as { object?: unknown } | null | undefined;
  if (typeof body?.object === "string") return body as T;
  const start = text.slice(0, 100).trim() || "an empty response";
  throw new ApiError(`${url} is not a Verk server, or a proxy answered in its place. The response begins: ${start}`, 0);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Formats the error of the API. A body in another format, such as a proxy's page, still gives the status. */
async function failureOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  const requestId = response.headers.get("x-request-id");
  try {
    const { error } = JSON.parse(text) as { error: { message: string; code: string | null; param: string | null } };
    const { message, code, param } = error;
    const names = (field: string) => message.includes(field) || message.includes(field.replaceAll("/", "."));
    const isPlain = !param?.startsWith("/") || /^Line \d+: /.test(message) || names(param.slice(1));
    return new ApiError(`${isPlain ? "" : `${param}: `}${message}`, response.status, code, { param, requestId });
  } catch {
    return new ApiError(
      `The server answered ${response.status}: ${text.slice(0, 200).trim() || "an empty body"}`,
      response.status,
      null,
      { requestId },
    );
  }
}

/**
 * Reads server-sent events. A block ends with an empty line; `retry`, and the `[DONE]` that ends a chat, are not
 * events.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onComment: (text: string) => void = () => {},
  onCursor: (id: string) => void = () => {},
): AsyncGenerator<ServerEvent> {
  let pending = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
    pending = (pending + chunk).replaceAll("\r\n", "\n"); // some proxies rewrite line ends
    const blocks = pending.split("\n\n");
    pending = blocks.pop() ?? "";
    for (const block of blocks) {
      for (const [, text = ""] of block.matchAll(/^:[ ]?(.*)$/gm)) onComment(text);
      const [, cursor] = /^id:[ ]?(\S+)$/.exec(block) ?? [];
      if (cursor !== undefined) onCursor(cursor);
      const event = readBlock(block);
      if (event) yield event;
    }
  }
}

function readBlock(block: string): ServerEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const [, name = "", value = ""] = /^([a-z]+):[ ]?(.*)$/.exec(line) ?? [];
    if (name === "data" && fields.has("data")) fields.set("data", `${fields.get("data")}\n${value}`);
    else if (name) fields.set(name, value);
  }
  const data = fields.get("data");
  if (data === undefined || data === "[DONE]") return undefined;
  const value = parsed(data);
  if (value === undefined) throw new ApiError(`The server sent an event that is not JSON: ${data.slice(0, 100)}`, 0);
  return { id: fields.get("id"), event: fields.get("event") ?? "message", data: value };
}
