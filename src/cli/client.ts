/** The API as the command line sees it: JSON in, JSON out, and an error that can be shown as it is. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** 0: the server could not be reached. */
    readonly status: number,
    readonly code: string | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "ApiError";
  }
}

export type Answer<T> = { status: number; body: T; headers: Headers };
export type ServerEvent = { id: string | undefined; event: string; data: unknown };
type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
type StreamOptions = {
  body?: unknown;
  onComment?: (text: string) => void;
  /** The server has answered: what happens from here on is in the stream. */
  onOpen?: () => void;
  /** Where the stream begins, before the first event: an id to go on from. */
  onPlace?: (id: string) => void;
};
/** What is sent as it is, of any length: a stream is read as fast as the server takes it. */
export type Body = Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
type CallOptions = { headers?: Record<string, string>; signal?: AbortSignal; raw?: Body };

export type Client = {
  call: <T>(method: Method, path: string, body?: unknown, options?: CallOptions) => Promise<Answer<T>>;
  /** The bytes of an answer, as they come. */
  download: (path: string, signal: AbortSignal) => AsyncGenerator<Uint8Array>;
  /** Server-sent events until the server ends the stream or `signal` aborts; with a body it is a POST. */
  stream: (path: string, signal: AbortSignal, options?: StreamOptions) => AsyncGenerator<ServerEvent>;
};

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
        ...(raw === undefined ? {} : { body: raw, timeout: false }), // a large file is checked for as long as it takes
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
    async *stream(path, signal, { body, onComment, onOpen, onPlace } = {}) {
      const headers = headersOf({ accept: "text/event-stream", "content-type": "application/json" });
      const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const response = await send(path, { headers, signal, ...post, timeout: false }); // a wake takes as long as it takes
      onOpen?.();
      try {
        if (response.body) yield* readEvents(response.body, onComment, onPlace);
      } catch (cause) {
        throw signal.aborted || cause instanceof ApiError ? cause : brokenAt(url, cause);
      }
    },
  };
}

/** Any answer but 2xx is an ApiError. No error tells more of the address than its origin: the rest may be a permission. */
export async function request(address: string, init: BunFetchRequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    const { origin } = new URL(address);
    throw new ApiError(`Cannot reach ${origin}: is a server running there? (${(cause as Error).message})`, 0, null, {
      cause,
    });
  }
  if (response.ok) return response;
  throw await failureOf(response);
}

/** The bytes of an answer as they come; a connection that breaks is an error, not an end. */
export async function* bytesOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    if (response.body) yield* response.body;
  } catch (cause) {
    throw signal.aborted ? cause : brokenAt(new URL(response.url).origin, cause);
  }
}

const brokenAt = (url: string, cause: unknown) =>
  new ApiError(`The connection to ${url} broke: ${(cause as Error).message}`, 0, null, { cause });

/** Every answer of ours says what it is; a page of another program at that address does not. */
function readBody<T>(url: string, text: string): T {
  const body = parsed(text) as { object?: unknown } | null | undefined;
  if (typeof body?.object === "string") return body as T;
  const told = text.slice(0, 100).trim() || "nothing";
  throw new ApiError(`${url} is no Verk server, or something between answers for it: it said ${told}`, 0);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The envelope in words; a body that is not ours (a proxy's page) still gives the status. */
async function failureOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  const request = response.headers.get("x-request-id");
  const where = `${response.status}${request ? `, request ${request}` : ""}`;
  try {
    const { error } = JSON.parse(text) as { error: { message: string; code: string | null; param: string | null } };
    const { message, code, param } = error;
    const names = (field: string) => message.includes(field) || message.includes(field.replaceAll("/", "."));
    const isPlain = param === null || /^Line \d+: /.test(message) || names(param.replace(/^\//, ""));
    return new ApiError(
      `${isPlain ? "" : `${param}: `}${message} (${code ?? "error"}, ${where})`,
      response.status,
      code,
    );
  } catch {
    return new ApiError(`The server answered ${where}: ${text.slice(0, 200).trim() || "nothing"}`, response.status);
  }
}

/** Blocks end with an empty line. `retry`, and the `[DONE]` that ends a chat, are not events. */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onComment: (text: string) => void = () => {},
  onPlace: (id: string) => void = () => {},
): AsyncGenerator<ServerEvent> {
  let pending = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
    pending = (pending + chunk).replaceAll("\r\n", "\n"); // some proxies rewrite the ends of lines
    const blocks = pending.split("\n\n");
    pending = blocks.pop() ?? "";
    for (const block of blocks) {
      for (const [, text = ""] of block.matchAll(/^:[ ]?(.*)$/gm)) onComment(text);
      const [, place] = /^id:[ ]?(\S+)$/.exec(block) ?? [];
      if (place !== undefined) onPlace(place);
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
  if (value === undefined) throw new ApiError(`The server sent what is no event: ${data.slice(0, 100)}`, 0);
  return { id: fields.get("id"), event: fields.get("event") ?? "message", data: value };
}
