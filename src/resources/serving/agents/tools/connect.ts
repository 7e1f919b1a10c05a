/** Connections to the servers of an agent: over HTTP through the guard, or as a program in the jail of a new session. */
import type { Ctx, Principal } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { guardedOpenDial } from "../../../../platform/network/http_client.ts";
import { McpClient } from "../../../../sandbox/mcp/client.ts";
import { httpTransport } from "../../../../sandbox/mcp/http.ts";
import { stdioTransport } from "../../../../sandbox/mcp/stdio.ts";
import * as secrets from "../../../access/secrets/service.ts";
import { admit, startProgram } from "../../../machines/sessions/exec/exec.ts";
import { open } from "../../../machines/sessions/prepare.ts";
import { CreateExec, CreateSession } from "../../../machines/sessions/schema.ts";
import * as sessions from "../../../machines/sessions/service.ts";
import { usable } from "../../../machines/sessions/usable.ts";
import { type McpServer, withSecrets } from "./schema.ts";

export type Connection = { client: McpClient; close: () => Promise<void> };
type Caller = { principal: Principal; signal: AbortSignal };

export const connect = (ctx: Ctx, server: McpServer, caller: Caller): Promise<Connection> =>
  server.server_url === undefined ? startServer(ctx, server, caller) : reach(ctx, server, server.server_url, caller);

async function reach(ctx: Ctx, server: McpServer, url: string, { principal, signal }: Caller): Promise<Connection> {
  if (!URL.canParse(url)) throw new AppError("fetch_failed", `server_url: ${url.slice(0, 200)} is not an address`);
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "");
  const fill = (text: string) => withSecrets(text, (name) => secrets.reveal(ctx, principal.workspaceId, name, host));
  const headers = Object.fromEntries(Object.entries(server.headers ?? {}).map(([name, value]) => [name, fill(value)]));
  if (server.authorization !== undefined) headers["authorization"] = `Bearer ${fill(server.authorization)}`;
  const dial = guardedOpenDial(ctx.config.network, ctx.log);
  const client = await McpClient.open(httpTransport({ url, headers, dial }), signal);
  return { client, close: () => client.close() };
}

/** The session and its files end with the connection. A session that a kill has left expires by itself. */
async function startServer(ctx: Ctx, server: McpServer, { principal, signal }: Caller): Promise<Connection> {
  const { workspaceId } = principal;
  const { server_label: label, command = "", args = [], env = {}, volumes = [] } = server;
  const fill = (text: string) => withSecrets(text, (name) => secrets.reveal(ctx, workspaceId, name));
  const filled = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, fill(value)]));
  const { id } = await open(ctx, workspaceId, CreateSession.parse({ name: `mcp ${label}`, volumes }));
  const end = async () => void (await sessions.stop(ctx, workspaceId, id));
  try {
    await ctx.state.sessions.of(sessions.mustGet(ctx, workspaceId, id)).preparing;
    const row = await usable(ctx, principal, id);
    const body = CreateExec.parse({
      command: [command, ...args],
      env: filled,
      timeout_seconds: ctx.config.sessions.exec_timeout_seconds,
    });
    const admitted = await admit(ctx, row, body, signal);
    const transport = await stdioTransport((io) => startProgram(ctx, admitted, io));
    const client = await McpClient.open(transport, signal);
    return { client, close: () => client.close().finally(end) };
  } catch (error) {
    await end();
    throw error;
  }
}
