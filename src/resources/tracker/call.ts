import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { DialError } from "../../platform/network/address.ts";
import * as secrets from "../secrets/service.ts";
import { type Answer, type Call, type Tracker, TrackerError, type TrackerType } from "./contract.ts";
import { mlflow } from "./mlflow.ts";
import type { IntegrationRow } from "./table.ts";
import { wandb } from "./wandb.ts";

const TIMEOUT_MS = 10_000;
const MOST_BYTES = 4 * MIB;

export const TRACKERS: Record<TrackerType, Tracker> = { mlflow, wandb };

type Destination = Pick<IntegrationRow, "workspaceId" | "type" | "baseUrl" | "secretName">;

/** Calls a tracker through the network guard. The key is read for each call and hidden in answers and errors. */
export function callOf(ctx: Ctx, to: Destination, signal?: AbortSignal): Call {
  return async ({ path, body, method = body === undefined ? "GET" : "POST" }) => {
    const secret = secretOf(ctx, to);
    const authorization = secret === undefined ? undefined : authorizationOf(to, secret);
    const headers = {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    const request = { method, headers, allowHttp: true, timeoutMs: TIMEOUT_MS, maxResponseBytes: MOST_BYTES };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    try {
      const answer = await ctx.dial(to.baseUrl + path, { ...request, ...sent, ...(signal ? { signal } : {}) });
      return { status: answer.status, body: read(answer.body, [secret, authorization?.split(" ")[1]]) };
    } catch (error) {
      if (!(error instanceof DialError)) throw error;
      throw new TrackerError(error.code === "address_refused" ? "refused" : "unavailable", error.message, {
        cause: error,
      });
    }
  };
}

function secretOf(ctx: Ctx, { workspaceId, secretName, baseUrl }: Destination): string | undefined {
  if (secretName === null) return undefined;
  try {
    return secrets.reveal(ctx, workspaceId, secretName, new URL(baseUrl).hostname.replace(/^\[|\]$/g, ""));
  } catch (error) {
    if (error instanceof AppError) throw new TrackerError("denied", error.message, { cause: error });
    throw error;
  }
}

function authorizationOf({ type, secretName }: Destination, secret: string): string {
  const value = TRACKERS[type].authorization(secret);
  if (/^[\x20-\x7e]+$/.test(value)) return value;
  throw new TrackerError(
    "denied",
    `The secret ${secretName} has a character that an HTTP header cannot carry. Store a key of printable ASCII`,
  );
}

/** `hidden`: texts that become `***`, also where JSON escapes them. */
function read(bytes: Uint8Array, hidden: readonly (string | undefined)[]): Answer["body"] {
  let text = new TextDecoder().decode(bytes);
  for (const word of hidden)
    if (word) text = text.replaceAll(word, "***").replaceAll(JSON.stringify(word).slice(1, -1), "***");
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
