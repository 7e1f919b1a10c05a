import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import { settings } from "./table.ts";

export const DEFAULT_WORKSPACE = workspaces.DEFAULT_NAME;
const TOKEN = "setup_token_hash";
/** The link is in the journal, which more people can read than should have an admin key. */
const TOKEN_HOURS = 24;

/** The workspace `default`. It is created while there is no key. Later its absence means a rename or a deletion. */
export const findDefault = (ctx: Ctx) =>
  keys.someKeyExists(ctx.db) ? workspaces.findByName(ctx, DEFAULT_WORKSPACE) : defaultWorkspace(ctx);

/**
 * While there is no key but that of the command line, every start creates a new single-use setup token. After the
 * first other key it does not happen again, and an unused token is deleted. Without any key the workspace `default` is
 * created too if it is missing.
 */
export function prepare(ctx: Ctx): { setupToken: string | undefined } {
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString("base64url");
  return write(ctx.db, (tx) => {
    if (keys.someChosenKeyExists(tx)) {
      tx.delete(settings).where(eq(settings.key, TOKEN)).run();
      return { setupToken: undefined };
    }
    findDefault(ctx);
    remember(tx, hash(token), ctx.clock.now());
    return { setupToken: token };
  });
}

/** Exchanges the token for an admin key. One commit deletes the token and creates the key. */
export function redeem(ctx: Ctx, token: string) {
  return write(ctx.db, (tx) => {
    const spent = tx.delete(settings).where(eq(settings.key, TOKEN)).returning().get();
    if (keys.someChosenKeyExists(tx) || spent?.value !== hash(token))
      throw new AppError(
        "invalid_api_key",
        "This setup token is not valid any more: run `verk keys create --scope admin` on the server",
      );
    if (ctx.clock.now() - spent.updatedAt >= TOKEN_HOURS * HOUR_MS)
      throw new AppError(
        "invalid_api_key",
        `This setup token expired after ${TOKEN_HOURS} hours: restart the server for a new one, or run \`verk keys create --scope admin\``,
      );
    return adminKey(ctx);
  });
}

/** It does not expire: with no other key the owner would be locked out of the dashboard. */
export function adminKey(ctx: Ctx) {
  return keys.create(ctx, defaultWorkspace(ctx).id, {
    name: "setup",
    scopes: ["admin"],
    expires_at: null,
    monthly_budget_usd: null,
    metadata: {},
  });
}

const defaultWorkspace = (ctx: Ctx) =>
  workspaces.findByName(ctx, DEFAULT_WORKSPACE) ?? workspaces.create(ctx, { name: DEFAULT_WORKSPACE, metadata: {} });

const hash = (token: string) => new Bun.CryptoHasher("sha256").update(token).digest("hex");

function remember(tx: Tx, value: string, now: number) {
  const fact = { value, updatedAt: now };
  tx.insert(settings)
    .values({ key: TOKEN, ...fact })
    .onConflictDoUpdate({ target: settings.key, set: fact })
    .run();
}
