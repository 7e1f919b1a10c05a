/**
 * A client of the Model Context Protocol: tools of a server, listed and called. The server is not trusted. It may lie,
 * hang, flood or end at any time: then the call fails with McpError, and the caller may open another connection.
 */
import { checked, type Outside, OutsideError } from "../../lib/json/outside.ts";
import { INITIALIZED, MAX_TOOLS, type Message, PROGRESS, RESULT, TOOLS } from "./forms.ts";
import { textOf } from "./text.ts";

/** The newest first. A server answers with the one that it speaks. */
const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MAX_PAGES = 50;
const MAX_SCHEMA_CHARACTERS = 64 * 1024;
const MAX_DESCRIPTION = 4_000;
const NO_METHOD = -32_601;
const ERROR_CHARACTERS = 500;

/** The server broke the protocol, or could not be reached. The message is for the user. */
export class McpError extends Error {
  override readonly name = "McpError";
}

export type Listener = {
  message: (message: Message) => void;
  /** The connection is over. Nothing comes any more. */
  end: (error: McpError) => void;
};

/** The connection to a server. */
export type Transport = {
  /** Called once, before the first `send`. */
  listen: (listener: Listener) => void;
  /** Sends a message. Rejects with McpError if the server does not take it, or gives no answer to it. */
  send: (message: object, signal: AbortSignal) => Promise<void>;
  /** The version that both sides speak. */
  agree?: (version: string) => void;
  close: () => Promise<void>;
};

export type McpTool = {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
  /** The server says that the tool changes nothing. A hint: the server may lie. */
  isReadOnly: boolean;
};
/** `failed`: the tool reports an error, and the text says which. */
export type ToolResult = { text: string; failed: boolean };

/** `callMs`: the longest silence during a call. `mostMs`: the longest call, also of a server that reports progress. */
export type Times = { startMs: number; callMs: number; mostMs: number };
export const TIMES: Times = { startMs: 60_000, callMs: 60_000, mostMs: 600_000 };

type Pending = {
  resolve: (result: unknown) => void;
  reject: (error: McpError) => void;
  restart: () => void;
};

export class McpClient {
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #tools: Promise<readonly McpTool[]> | undefined;
  #end: McpError | undefined;

  private constructor(
    readonly transport: Transport,
    readonly times: Times,
  ) {
    transport.listen({ message: (message) => this.#receive(message), end: (error) => this.#over(error) });
  }

  /** Closes the connection if the server cannot be used. */
  static async open(transport: Transport, signal: AbortSignal, times: Times = TIMES): Promise<McpClient> {
    const client = new McpClient(transport, times);
    try {
      await client.#initialize(signal);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  async #initialize(signal: AbortSignal) {
    const hello = {
      protocolVersion: VERSIONS[0],
      capabilities: {},
      clientInfo: { name: "verk", title: "Verk", version: "1" },
    };
    const { protocolVersion: version } = await this.#request(INITIALIZED, "initialize", hello, signal);
    if (!VERSIONS.includes(version))
      throw new McpError(`speaks the protocol ${version.slice(0, 40)}, not one of ${VERSIONS.join(", ")}`);
    this.transport.agree?.(version);
    await this.transport.send({ jsonrpc: "2.0", method: "notifications/initialized" }, signal);
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** The tools of all pages. They are listed again after the server says that they have changed. */
  tools(signal: AbortSignal): Promise<readonly McpTool[]> {
    const listing = this.#tools ?? this.#list(signal);
    this.#tools = listing;
    listing.catch(() => {
      if (this.#tools === listing) this.#tools = undefined;
    });
    return listing;
  }

  async #list(signal: AbortSignal): Promise<McpTool[]> {
    const tools: McpTool[] = [];
    let cursor: string | null | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = cursor ? { cursor } : {};
      const listed = await this.#request(TOOLS, "tools/list", params, signal);
      for (const { name, description, inputSchema, annotations } of listed.tools)
        tools.push({
          name,
          description: (description ?? "").slice(0, MAX_DESCRIPTION),
          inputSchema: inputSchemaOf(name, inputSchema),
          isReadOnly: annotations?.readOnlyHint === true,
        });
      if (tools.length > MAX_TOOLS) throw new McpError(`has more than ${MAX_TOOLS} tools`);
      cursor = listed.nextCursor;
      if (!cursor) return tools;
    }
    throw new McpError(`has more than ${MAX_PAGES} pages of tools`);
  }

  /** Throws McpError if no result came, or the reason of `signal`. */
  async call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<ToolResult> {
    const result = await this.#request(RESULT, "tools/call", { name, arguments: args }, signal);
    return { text: textOf(result), failed: result.isError === true };
  }

  async ping(signal: AbortSignal): Promise<void> {
    await this.#ask("ping", {}, signal);
  }

  async close(): Promise<void> {
    this.#over(new McpError("is closed"));
    await this.transport.close();
  }

  async #request<T>(form: Outside<T>, method: string, params: object, signal: AbortSignal): Promise<T> {
    const result = await this.#ask(method, params, signal);
    try {
      return checked(form, result);
    } catch (cause) {
      if (!(cause instanceof OutsideError)) throw cause;
      throw new McpError(`broke the protocol: ${cause.message}`, { cause });
    }
  }

  async #ask(method: string, params: object, caller: AbortSignal): Promise<unknown> {
    caller.throwIfAborted();
    if (this.#end) throw this.#end;
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const isCall = method === "tools/call";
    const limits = isCall ? [this.times.callMs, this.times.mostMs] : [this.times.startMs, this.times.startMs];
    const watch = timeLimit(method, limits as [number, number], caller, reject);
    this.#pending.set(id, { resolve, reject, restart: watch.restart });
    const meta = isCall ? { _meta: { progressToken: id } } : {};
    this.transport
      .send({ jsonrpc: "2.0", id, method, params: { ...params, ...meta } }, watch.signal)
      .catch((error) => reject(error instanceof McpError ? error : new McpError(messageOf(error), { cause: error })));
    try {
      return await promise;
    } catch (error) {
      if (watch.signal.aborted && method !== "initialize") this.#cancel(id);
      caller.throwIfAborted();
      throw error;
    } finally {
      this.#pending.delete(id);
      watch.end();
    }
  }

  /** The server may still work on the request, whose answer has no reader any more. */
  #cancel(id: number) {
    const params = { requestId: id, reason: "the client no longer waits" };
    const message = { jsonrpc: "2.0", method: "notifications/cancelled", params };
    if (!this.#end) this.transport.send(message, AbortSignal.timeout(this.times.startMs)).catch(() => {});
  }

  #over(error: McpError) {
    this.#end ??= error;
    for (const { reject } of this.#pending.values()) reject(error);
  }

  #receive({ id, method, params, result, error }: Message) {
    if (method !== undefined) {
      if (id === undefined || id === null) this.#notice(method, params);
      else this.#answer(id, method);
      return;
    }
    // An answer with another id than that of an open request is dropped.
    const pending = typeof id === "number" ? this.#pending.get(id) : undefined;
    if (!pending) return;
    if (error) pending.reject(new McpError(`answers with an error: ${error.message.slice(0, ERROR_CHARACTERS)}`));
    else pending.resolve(result);
  }

  #notice(method: string, params: unknown) {
    if (method === "notifications/tools/list_changed") this.#tools = undefined;
    if (method !== "notifications/progress") return;
    const { data } = PROGRESS.schema.safeParse(params);
    if (typeof data?.progressToken === "number") this.#pending.get(data.progressToken)?.restart();
  }

  /** A server may ask for `ping`. This client has no folders, no model and no user for a server. */
  #answer(id: string | number, method: string) {
    const outcome =
      method === "ping" ? { result: {} } : { error: { code: NO_METHOD, message: `${method} is not supported` } };
    this.transport.send({ jsonrpc: "2.0", id, ...outcome }, AbortSignal.timeout(this.times.startMs)).catch(() => {});
  }
}

/** Aborts with the caller, after a silence, or when the longest time is over. */
function timeLimit(
  method: string,
  [silenceMs, mostMs]: [number, number],
  caller: AbortSignal,
  reject: (error: McpError) => void,
) {
  const over = new AbortController();
  const abort = (why: string) => {
    reject(new McpError(why));
    over.abort();
  };
  const leave = () => abort("was left by its caller");
  const silent = () => abort(`did not answer to ${method} within ${silenceMs} ms`);
  let timer = setTimeout(silent, silenceMs);
  const last = setTimeout(() => abort(`did not end ${method} within ${mostMs} ms`), mostMs);
  caller.addEventListener("abort", leave, { once: true });
  return {
    signal: over.signal,
    restart() {
      clearTimeout(timer);
      timer = setTimeout(silent, silenceMs);
    },
    end() {
      clearTimeout(timer);
      clearTimeout(last);
      caller.removeEventListener("abort", leave);
    },
  };
}

function inputSchemaOf(name: string, schema: Record<string, unknown>): Record<string, unknown> {
  const { length } = JSON.stringify(schema);
  if (length <= MAX_SCHEMA_CHARACTERS) return schema;
  throw new McpError(`has a tool ${name} whose schema has more than ${MAX_SCHEMA_CHARACTERS} characters`);
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
