import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Outside, OutsideError, type Sent } from "../../../lib/json/outside.ts";
import { KIB } from "../../../lib/units.ts";
import { DialError } from "../../../platform/network/address.ts";
import { readAside } from "../../../platform/outside.ts";
import * as secrets from "../../access/secrets/service.ts";
import { type Call, type Tracker, TrackerError, type TrackerType } from "./contract.ts";
import { mlflow } from "./mlflow.ts";
import type { IntegrationRow } from "./table.ts";
import { wandb } from "./wandb.ts";

const TIMEOUT_MS = 10_000;
/** The beginning of an answer whose status is enough, for messages. */
const UNREAD_BYTES = 4 * KIB;
const SHOWN_CHARACTERS = 300;

export const TRACKERS: Record<TrackerType, Tracker> = { mlflow, wandb };

type Destination = Pick<IntegrationRow, "workspaceId" | "type" | "baseUrl" | "secretName">;

/** Calls a tracker through the network guard. The key is read for each call and hidden in answers and errors. */
export function callOf(ctx: Ctx, to: Destination, signal?: AbortSignal): Call {
  return async ({ path, body, form, method = body === undefined ? "GET" : "POST" }) => {
    const secret = secretOf(ctx, to);
    const authorization = secret === undefined ? undefined : authorizationOf(to, secret);
    const headers = {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    const most = form?.mostBytes ?? UNREAD_BYTES;
    const request = { method, headers, allowHttp: true, timeoutMs: TIMEOUT_MS, maxResponseBytes: most };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    try {
      const answer = await ctx.dial(to.baseUrl + path, { ...request, ...sent, ...(signal ? { signal } : {}) });
      const text = hide(new TextDecoder().decode(answer.body), [secret, authorization?.split(" ")[1]]);
      const received = { body: new TextEncoder().encode(text), truncated: answer.truncated };
      const read = form && (await bodyOf(form, received, { status: answer.status, workspaceId: to.workspaceId }));
      return { status: answer.status, text: text.slice(0, SHOWN_CHARACTERS), body: read };
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

type Reading = { status: number; workspaceId: string };

/** An error may have any body: its status says enough. */
async function bodyOf(form: Outside<unknown>, sent: Sent, { status, workspaceId }: Reading): Promise<unknown> {
  try {
    return await readAside(form, sent, { workspaceId });
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    if (status >= 300) return undefined;
    const message = `${cause.message}. Check that base_url is the address of a tracker`;
    throw new TrackerError("refused", message, { cause });
  }
}

/** `words` become `***`, also where JSON escapes them. */
function hide(text: string, words: readonly (string | undefined)[]): string {
  for (const word of words)
    if (word) text = text.replaceAll(word, "***").replaceAll(JSON.stringify(word).slice(1, -1), "***");
  return text;
}
