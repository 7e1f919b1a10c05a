import type { Ctx } from "../../../context.ts";
import { COMMAND_LINE_KEY } from "../../../lib/command_line_key.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { prepared } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";

/**
 * Keys that were revoked long ago and that nothing needs. A key whose budget others share stays with them. The first
 * key of the installation and the first one of a person stay for ever: without them the setup link would open again.
 */
const old = prepared((db) =>
  db.$client.prepare<{ id: string }, [number, string, number]>(
    `SELECT id FROM api_keys AS k WHERE status = 'revoked' AND revoked_at < ?
       AND id <> (SELECT id FROM api_keys ORDER BY created_at, id LIMIT 1)
       AND id IS NOT (SELECT id FROM api_keys WHERE name <> ? ORDER BY created_at, id LIMIT 1)
       AND NOT EXISTS (SELECT 1 FROM api_keys AS other WHERE other.budget_key_id = k.id)
     LIMIT ?`,
  ),
);
const removeSpending = prepared((db) => db.$client.prepare("DELETE FROM api_key_spending WHERE key_id = ?"));
const remove = prepared((db) => db.$client.prepare("DELETE FROM api_keys WHERE id = ?"));

export const prune = (ctx: Ctx): Promise<number> => {
  const before = ctx.clock.now() - ctx.config.api_keys.revoked_retention_days * DAY_MS;
  return gradually(ctx.db, (tx, rows) => {
    const keys = old(tx).all(before, COMMAND_LINE_KEY, rows);
    for (const { id } of keys) {
      removeSpending(tx).run(id);
      remove(tx).run(id);
    }
    return keys.length;
  });
};
