import { UsageError } from "../../../lib/errors.ts";
import { formatUsd, usdOf } from "../../../lib/money.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../../args.ts";
import { note, printJson, printResult, printTable } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { labelOf } from "./keys.ts";

const WORKSPACE = { type: "string", value: "NAME", doc: 'Workspace (default "default")' } as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, workspace: WORKSPACE, json: JSON_FLAG } as const;
const SHOWN = 10;

const show = command({
  summary: "Show the credit of a workspace and its latest transactions",
  flags: WHERE,
  examples: ["verk credits show", "verk credits show --workspace research --json"],
  async run({ workspace, json, ...where }) {
    const { billing, DEFAULT_WORKSPACE, mustFindWorkspace, offline } = await import("../../offline.ts");
    const account = await offline(settingsOf(where), (ctx) => {
      billing.begin(ctx);
      const { id, paymentCustomerId } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      return {
        payment_customer_id: paymentCustomerId,
        balance_usd: usdOf(billing.balanceMicros(ctx, id)),
        items: billing.transactions(ctx, id, { limit: SHOWN }).data,
        is_free: ctx.config.billing.local_rate_usd_per_hour === 0,
      };
    });
    if (json) printJson(account);
    else {
      note(`${formatUsd(account.balance_usd)} left (${account.payment_customer_id}).`);
      if (account.is_free) note("This machine is free (billing.local_rate_usd_per_hour = 0): nothing is charged.");
      const rows = account.items.map((each) => [each.created_at, formatUsd(each.amount_usd), each.description]);
      printTable(["WHEN", "AMOUNT", "WHAT"], rows, "No transactions yet.");
    }
    return EXIT.ok;
  },
});

const grant = command({
  summary: "Add credit to a workspace; a running server resumes work that waited for credit within a second",
  takes: ["usd"],
  flags: {
    ...WHERE,
    note: { type: "string", value: "TEXT", doc: 'Description in the ledger (default "Credit granted")' },
    "take-back": { type: "boolean", doc: "Subtract the amount instead; the ledger keeps both entries" },
  },
  examples: ["verk credits grant 250", "verk credits grant 40 --workspace research --note 'Course in May'"],
  async run({ json, note: text, "take-back": back, ...where }, amount = "") {
    const usd = amountOf(amount) * (back ? -1 : 1);
    const description = text === undefined ? undefined : labelOf("--note", text);
    const { audited, billing, inWorkspace } = await import("../../offline.ts");
    const granted = await inWorkspace(where, (ctx, { id }) => {
      const entry = billing.grant(ctx, { workspaceId: id, usd, description });
      audited(ctx, "verk credits grant", id, entry.id);
      return { id: entry.id, amount_usd: usd, balance_usd: usdOf(billing.balanceMicros(ctx, id)) };
    });
    printResult(json, granted, { result: granted.id, remark: `${formatUsd(granted.balance_usd)} left.` });
    return EXIT.ok;
  },
});

export const credits: Group = {
  summary: "Manage the credit of workspaces, with or without a running server",
  subcommands: { show, grant },
};

function amountOf(text: string): number {
  const usd = /^\$?\d+(\.\d{1,6})?$/.test(text) ? Number(text.replace("$", "")) : Number.NaN;
  if (usd > 0 && usd <= 1e9) return usd;
  throw new UsageError(
    `usd: expected an amount in dollars such as 250 or 0.50, at most 1000000000, not ${JSON.stringify(text)}`,
  );
}
