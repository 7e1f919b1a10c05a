/** Settings in force, and those that the operator changes while the server runs. */
import { eq } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { DASHBOARD, originOf, settingsInForce } from "../../../platform/config/config.ts";
import { changeSetting, liveLeaf } from "../../../platform/config/live.ts";
import { write } from "../../../platform/db/db.ts";
import { present, type Setting } from "./schema.ts";
import { operatorSettings } from "./table.ts";

export function list(ctx: Ctx): Setting[] {
  const changed = new Map(
    ctx.db
      .select()
      .from(operatorSettings)
      .all()
      .map((row) => [row.name, row.changedAt]),
  );
  return settingsInForce(ctx.config).map((setting) => present(setting, changed.get(setting.path)));
}

/** A kept change that no longer fits, such as one of another version, is ignored with a warning. */
export function applyKept({ db, config, log }: Pick<Ctx, "db" | "config" | "log">) {
  for (const { name, value } of db.select().from(operatorSettings).all()) {
    if (originOf(config, name) !== undefined) continue; // a file, a variable or a flag wins
    const read = liveLeaf(name)?.schema().safeParse(value);
    if (read?.success) changeSetting(config, name, read.data);
    else log.warn("a setting that was changed on the dashboard is ignored", { name });
  }
}

/** `value` null: back to the default. */
export function change(ctx: Ctx, { keyId }: Principal, name: string, value: unknown): Setting {
  const checked = value === null ? undefined : mustFit(ctx, name, value);
  mustBeFree(ctx, name);
  const changedAt = ctx.clock.now();
  write(ctx.db, (tx) => {
    if (checked === undefined) tx.delete(operatorSettings).where(eq(operatorSettings.name, name)).run();
    else {
      const set = { value: checked, keyId, changedAt };
      tx.insert(operatorSettings)
        .values({ name, ...set })
        .onConflictDoUpdate({ target: operatorSettings.name, set })
        .run();
    }
  });
  changeSetting(ctx.config, name, checked);
  return list(ctx).find((each) => each.name === name) as Setting; // mustBeFree has found it
}

function mustFit(ctx: Ctx, name: string, value: unknown): unknown {
  mustBeFree(ctx, name);
  const read = liveLeaf(name)?.schema().safeParse(value);
  const [issue] = read?.error?.issues ?? [];
  if (issue) throw new AppError("schema", `${name}: ${issueText(issue)}`, { param: "/value" });
  return read?.data;
}

/** Nothing else sets it, and it changes while the server runs. */
function mustBeFree({ config }: Pick<Ctx, "config">, name: string) {
  const names = settingsInForce(config).map(({ path }) => path);
  if (!names.includes(name)) {
    const close = nearest(name, names);
    const hint = close === undefined ? "GET /v1/settings lists them" : `Did you mean ${close}?`;
    throw new AppError("resource_not_found", `There is no setting ${name.slice(0, 80)}. ${hint}`, { param: "name" });
  }
  if (!liveLeaf(name))
    throw new AppError(
      "unsupported_state",
      `${name} is read at the start of the server. Write it to the file or the environment, and restart the server`,
      { param: "name" },
    );
  const origin = originOf(config, name);
  if (origin !== undefined && origin !== DASHBOARD)
    throw new AppError("unsupported_state", `${name} is set by ${origin}, which wins. Change it there`, {
      param: "name",
    });
}
