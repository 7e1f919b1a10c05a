import type { Account } from "../../../resources/access/account/schema.ts";
import type { BurnRate } from "../../../resources/money/billing/schema.ts";
import type { CostSummary } from "../../../resources/money/cost/schema.ts";
import { count, duration, money, NONE, number } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card, Stat } from "../../kit/card.tsx";
import { Empty, ErrorBox, Page as Frame, Loaded } from "../../kit/page.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { ByUse } from "./by_use.tsx";

const PERIODS = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "A year"],
] as const;
const FRESH = { everyMs: 30_000 };

export function Page() {
  const chosen = queryOf("days") ?? "30";
  const days = PERIODS.some(([value]) => value === chosen) ? chosen : "30";
  const summary = useResource<CostSummary>(`/v1/cost/summary?days=${days}`, FRESH);
  const burn = useResource<BurnRate>("/v1/billing/burn_rate", FRESH);
  return (
    <Frame
      title="Usage"
      purpose="Cost, tokens, requests and device time by day, model and key, and the credit that is left."
      actions={
        <select
          aria-label="Period"
          value={days}
          onChange={(event) =>
            setQuery({ days: event.currentTarget.value === "30" ? undefined : event.currentTarget.value })
          }
        >
          {PERIODS.map(([value, shown]) => (
            <option key={value} value={value}>
              {shown}
            </option>
          ))}
        </select>
      }
    >
      <div class="grid">
        {summary.error && !summary.data ? (
          <ErrorBox error={summary.error} retry={summary.refresh} />
        ) : (
          <Figures sum={summary.data} burn={burn.data} />
        )}
        <ByUse days={days} />
        <Transactions />
      </div>
    </Frame>
  );
}

/** Its labels are there before its figures, so that nothing moves. */
function Figures({ sum, burn }: { sum: CostSummary | undefined; burn: BurnRate | undefined }) {
  const left = burn?.hours_remaining;
  return (
    <div class="grid stats">
      <Stat label="Spent" value={money(sum && sum.total_cost_usd + sum.deployment_cost_usd)} />
      <Stat label="By the price list" value={money(sum?.shadow_cost_usd)} />
      <Stat label="Device hours" value={number(sum && sum.total_gpu_hours + sum.deployment_gpu_hours)} />
      <Stat label="Energy" value={sum?.energy_wh ? `${number(sum.energy_wh)} Wh` : NONE} />
      <Stat label="Runs" value={count(sum?.job_count)} />
      <Stat
        label="Credit left"
        value={money(burn?.balance_usd)}
        change={left == null ? undefined : `for ${duration(left * 3600)}`}
      />
      <Stat label="Cost an hour now" value={money(burn?.burn_rate_usd_per_hour)} />
    </div>
  );
}

type Transaction = { id: string; amount_usd: number; description: string; created_at: string };

function Transactions() {
  const account = useResource<Account>("/v1/account");
  const customer = account.data?.payment_customer_id;
  const path = customer === undefined ? null : `/v1/billing/transactions?limit=20&payment_customer_id=${customer}`;
  const list = useResource<{ items: Transaction[] }>(path, FRESH);
  return (
    <Card title="Credit and charges" note="newest first">
      <Loaded of={{ ...list, error: list.error ?? account.error }}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="No charge yet">Work on this machine is free unless the operator sets a rate.</Empty>
          ) : (
            <Table
              label="Credit and charges"
              rows={items}
              keyOf={({ id }) => id}
              columns={[
                { title: "What", cell: ({ description }) => description },
                { title: "Amount", cell: ({ amount_usd: usd }) => money(usd), numeric: true },
                { title: "When", cell: ({ created_at: at }) => <Time at={at} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}
