import type { Account } from "../../../resources/access/account/schema.ts";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { BurnRate } from "../../../resources/money/billing/schema.ts";
import type { CostByDay, CostSummary } from "../../../resources/money/cost/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import { count, duration, money, NONE, number } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Card, Stat } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { modelUses } from "./by_model.ts";
import { Days } from "./days.tsx";

const PERIODS = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "A year"],
] as const;
const FRESH = { everyMs: 30_000 };

export function Page() {
  const days = queryOf("days") ?? "30";
  const summary = useResource<CostSummary>(`/v1/cost/summary?days=${days}`, FRESH);
  const burn = useResource<BurnRate>("/v1/billing/burn_rate", FRESH);
  const byDay = useResource<CostByDay>(`/v1/cost/by_day?days=${days}`, FRESH);
  return (
    <Frame
      title="Usage"
      purpose="Cost, GPU time and energy by day, model and key, and the credit that is left."
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
      <Loaded of={{ ...summary, data: burn.data && byDay.data && summary.data }} skeleton={<Skeleton height={420} />}>
        {(sum) => (
          <div class="grid">
            <Figures sum={sum} burn={burn.data} />
            <Card title="By day" note="UTC">
              <Days rows={byDay.data ?? []} days={Number(days)} />
            </Card>
            <div class="grid half">
              <ByModel />
              <ByKey />
            </div>
            <Transactions />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

function Figures({ sum, burn }: { sum: CostSummary; burn: BurnRate | undefined }) {
  const left = burn?.hours_remaining;
  return (
    <div class="grid stats">
      <Stat
        label="Credit left"
        value={money(burn?.balance_usd)}
        change={left == null ? undefined : `for ${duration(left * 3600)}`}
      />
      <Stat label="Cost an hour now" value={money(burn?.burn_rate_usd_per_hour)} />
      <Stat label="Spent" value={money(sum.total_cost_usd + sum.deployment_cost_usd)} />
      <Stat label="By the price list" value={money(sum.shadow_cost_usd)} />
      <Stat label="Device hours" value={number(sum.total_gpu_hours + sum.deployment_gpu_hours)} />
      <Stat label="Energy" value={sum.energy_wh === 0 ? NONE : `${number(sum.energy_wh)} Wh`} />
      <Stat label="Runs" value={count(sum.job_count)} />
    </div>
  );
}

function ByModel() {
  const jobs = useResource<{ data: TrainingJob[] }>("/v1/training_jobs?limit=100", { events: ["job."] });
  const deployments = useResource<{ data: Deployment[] }>("/v1/deployments?limit=100", { events: ["deployment."] });
  return (
    <Card title="By model" note="of the 100 newest runs and deployments">
      <Loaded of={{ ...jobs, data: deployments.data && jobs.data }}>
        {({ data }) => {
          const rows = modelUses(data, deployments.data?.data ?? []);
          if (rows.length === 0) return <Empty title="No model used yet">Train or deploy one.</Empty>;
          return (
            <Table
              label="Use by model"
              rows={rows}
              keyOf={({ model }) => model}
              columns={[
                { title: "Model", cell: ({ model }) => model },
                { title: "Runs", cell: ({ runs }) => count(runs), numeric: true },
                { title: "Requests", cell: ({ requests }) => count(requests), numeric: true },
                { title: "Cost", cell: ({ costUsd }) => money(costUsd), numeric: true },
                {
                  title: "Energy",
                  cell: ({ energyWh }) => (energyWh ? `${number(energyWh)} Wh` : NONE),
                  numeric: true,
                  wide: true,
                },
              ]}
            />
          );
        }}
      </Loaded>
    </Card>
  );
}

function ByKey() {
  const keys = useResource<{ data: ApiKey[] }>(may("account") ? "/v1/api_keys?limit=100" : null, FRESH);
  if (!may("account")) return null;
  return (
    <Card title="By key" note="this month, UTC">
      <Loaded of={keys}>
        {({ data }) => (
          <Table
            label="Use by key"
            rows={[...data].sort((a, b) => b.spent_this_month_usd - a.spent_this_month_usd)}
            keyOf={({ id }) => id}
            columns={[
              { title: "Key", cell: ({ name }) => name },
              { title: "Spent", cell: ({ spent_this_month_usd: spent }) => money(spent), numeric: true },
              {
                title: "Budget",
                cell: ({ monthly_budget_usd: budget }) => (budget === null ? "no limit" : money(budget)),
                numeric: true,
              },
              { title: "Used", cell: ({ last_used_at: at }) => (at ? <Time at={at} /> : "never"), wide: true },
            ]}
          />
        )}
      </Loaded>
    </Card>
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
