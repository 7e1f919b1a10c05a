/** The tools of all servers of an agent during one chat. A server that ends or hangs costs its call, and is started again. */
import type { Ctx, Principal } from "../../../../context.ts";
import type { Tool } from "../../../../lib/chat/messages.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isObject } from "../../../../lib/json/object.ts";
import { McpError, type McpTool } from "../../../../sandbox/mcp/client.ts";
import { type Connection, connect } from "./connect.ts";
import { isAllowed, type McpServer, needsApproval } from "./schema.ts";

export type Call = { id: string; name: string; arguments: string };
/** A call that this server has made. The fields are those of `mcp_call` in OpenAI's responses. */
export type ExecutedTool = {
  index: number;
  type: "mcp";
  id: string;
  server_label: string;
  name: string;
  arguments: string;
  output: string | null;
  error: string | null;
};
export type Executed = ExecutedTool & { durationMs: number; startedAt: number };

type Server = { spec: McpServer; connection: Promise<Connection> };
type Entry = { server: Server; tool: McpTool; isApprovalNeeded: boolean };

const MAX_TOOLS = 128; // of one chat request
const MAX_NAME = 64;
const MAX_ARGUMENTS = 256 * 1024;

export type Toolbox = Awaited<ReturnType<typeof openToolbox>>;

type Options = { principal: Principal; signal: AbortSignal; taken: readonly string[] };

/** `taken`: names of the client's own tools. Throws the error that a client reads if a server cannot be used. */
export async function openToolbox(ctx: Ctx, specs: readonly McpServer[], { principal, signal, taken }: Options) {
  const servers = specs.map((spec): Server => ({ spec, connection: connect(ctx, spec, { principal, signal }) }));
  const close = async () => {
    for (const { connection } of servers) await connection.then((each) => each.close()).catch(() => {}); // it is gone
  };
  try {
    await Promise.allSettled(servers.map(({ connection }) => connection));
    const entries = new Map<string, Entry>();
    for (const server of servers) await addTools(entries, server, { signal, taken });
    if (entries.size + taken.length > MAX_TOOLS)
      throw new AppError(
        "unsupported_state",
        `The servers of the agent have ${entries.size} tools, and a request has at most ${MAX_TOOLS}: set allowed_tools`,
      );
    const call = (sent: Call, index: number) => execute(ctx, entries, { sent, index, principal, signal });
    return { tools: [...entries].map(toolOf), entries, call, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function addTools(
  entries: Map<string, Entry>,
  server: Server,
  { signal, taken }: Pick<Options, "signal" | "taken">,
) {
  const { spec } = server;
  let tools: readonly McpTool[];
  try {
    tools = await (await server.connection).client.tools(signal);
  } catch (cause) {
    if (!(cause instanceof McpError)) throw cause;
    throw new AppError("fetch_failed", `The MCP server ${spec.server_label} ${cause.message}`, { cause });
  }
  const own = new Set<string>();
  for (const tool of tools) {
    if (own.has(tool.name) || !isAllowed(spec, tool)) continue;
    own.add(tool.name);
    const name = nameFor(spec.server_label, tool.name, (each) => entries.has(each) || taken.includes(each));
    if (name !== undefined) entries.set(name, { server, tool, isApprovalNeeded: needsApproval(spec, tool) });
  }
}

/** The name of the tool; behind that of its server if another tool has it. Undefined: another tool has that name too. */
function nameFor(label: string, name: string, isTaken: (name: string) => boolean): string | undefined {
  const plain = name.replaceAll(/[^\w.-]/g, "_").slice(0, MAX_NAME);
  if (!isTaken(plain)) return plain;
  const full = `${label}__${plain}`.slice(0, MAX_NAME);
  return isTaken(full) ? undefined : full;
}

const toolOf = ([name, { tool }]: [string, Entry]): Tool => ({
  type: "function",
  function: { name, description: tool.description, parameters: tool.inputSchema },
});

type Execution = { sent: Call; index: number; principal: Principal; signal: AbortSignal };

/** Never throws for what a server does: the model reads the error. */
async function execute(ctx: Ctx, entries: ReadonlyMap<string, Entry>, execution: Execution): Promise<Executed> {
  const { sent, index, signal } = execution;
  const entry = entries.get(sent.name);
  if (!entry) throw new Error(`no server has the tool ${sent.name}`);
  const { server_label } = entry.server.spec;
  const startedAt = ctx.clock.now();
  const began = ctx.clock.steady();
  const outcome = await attempt(ctx, entry, execution);
  signal.throwIfAborted();
  const head = { index, type: "mcp" as const, id: sent.id, server_label, name: entry.tool.name };
  return { ...head, arguments: sent.arguments, ...outcome, startedAt, durationMs: ctx.clock.steady() - began };
}

async function attempt(
  ctx: Ctx,
  { server, tool }: Entry,
  { sent, principal, signal }: Execution,
): Promise<Pick<ExecutedTool, "output" | "error">> {
  const args = argumentsOf(sent.arguments);
  if (!args) return { output: null, error: "the arguments are not a JSON object" };
  try {
    const { client } = await living(ctx, server, { principal, signal });
    const { text, failed } = await client.call(tool.name, args, signal);
    return failed ? { output: null, error: text } : { output: text, error: null };
  } catch (error) {
    if (signal.aborted) return { output: null, error: "the client left" };
    if (error instanceof McpError) return { output: null, error: `the MCP server ${error.message}` };
    if (error instanceof AppError) return { output: null, error: `the MCP server cannot be started: ${error.message}` };
    throw error;
  }
}

/** A server that has ended is started again, once for each call. */
async function living(ctx: Ctx, server: Server, caller: Pick<Execution, "principal" | "signal">): Promise<Connection> {
  const connection = await server.connection.catch(() => undefined);
  if (connection && !connection.client.isOver) return connection;
  await connection?.close();
  server.connection = connect(ctx, server.spec, caller);
  return await server.connection;
}

function argumentsOf(text: string): Record<string, unknown> | undefined {
  if (text.length > MAX_ARGUMENTS) return undefined;
  try {
    const value: unknown = JSON.parse(text.trim() === "" ? "{}" : text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
