import { useState } from "preact/hooks";
import { expiresSoon } from "../../../lib/time.ts";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import { api } from "../../data/api.ts";
import { money } from "../../data/format.ts";
import { reload, useList } from "../../data/resource.ts";
import { may, session } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import { Create } from "./create.tsx";
import { SCOPE_WORDS } from "./scopes.ts";
import { Workspaces } from "./workspaces.tsx";

const TABS = [
  ["keys", "Keys"],
  ["workspaces", "Workspaces"],
] as const;

export function Page() {
  const tab = tabOf("keys");
  const isAdmin = may("admin");
  return (
    <Frame
      title={isAdmin ? "Keys and workspaces" : "Keys"}
      purpose="A key opens the API and this dashboard, within its scopes and its budget."
      actions={
        tab === "keys" &&
        may("account", false) && (
          <Button kind="primary" icon="plus" onClick={() => setQuery({ new: "1" })}>
            New key
          </Button>
        )
      }
    >
      {isAdmin && <Tabs label="Kinds" tabs={TABS} />}
      {tab === "workspaces" && isAdmin ? <Workspaces /> : <Keys />}
      {queryOf("new") === "1" && <Create onClose={() => setQuery({ new: undefined })} />}
    </Frame>
  );
}

function Keys() {
  const list = useList<ApiKey>("/v1/api_keys?limit=50", { events: ["api_key."] });
  const [revoked, setRevoked] = useState<ApiKey>();
  const ownId = session.value.is === "in" ? session.value.session.key.id : undefined;
  return (
    <Card>
      <Loaded of={{ ...list, data: list.items }}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty
              title="No key"
              command="verk keys create --name me"
              action={may("account", false) && <Button onClick={() => setQuery({ new: "1" })}>New key</Button>}
            />
          ) : (
            <Table
              label="Keys"
              rows={rows}
              keyOf={({ id }) => id}
              columns={[
                { title: "Name", cell: (key) => <Name item={key} isOwn={key.id === ownId} /> },
                { title: "Scopes", cell: ({ scopes }) => scopes.map((scope) => SCOPE_WORDS[scope][0]).join(", ") },
                { title: "Spent this month", cell: (key) => <Budget item={key} />, wide: true },
                { title: "Used", cell: ({ last_used_at: at }) => (at ? <Time at={at} /> : "never"), wide: true },
                { title: "Expires", cell: (key) => <End item={key} />, wide: true },
                {
                  title: "",
                  cell: (key) =>
                    may("account", false) && (
                      <Button kind="danger" label={`Revoke ${key.name}`} onClick={() => setRevoked(key)}>
                        Revoke
                      </Button>
                    ),
                  numeric: true,
                },
              ]}
            />
          )
        }
      </Loaded>
      <More list={list} />
      {revoked && <Revoke item={revoked} isOwn={revoked.id === ownId} onClose={() => setRevoked(undefined)} />}
    </Card>
  );
}

const Name = ({ item: { name, key_prefix }, isOwn }: { item: ApiKey; isOwn: boolean }) => (
  <span class="keys-name">
    <b>{name}</b>
    <span class="row">
      <code>{key_prefix}…</code>
      {isOwn && <Pill tone="good">This session</Pill>}
    </span>
  </span>
);

const End = ({ item: { created_at: created, expires_at: at } }: { item: ApiKey }) =>
  at === null ? (
    <span>never</span>
  ) : (
    <span class="row">
      <Time at={at} />
      {expiresSoon(Date.parse(created), Date.parse(at), Date.now()) && <Pill tone="warn">Ends soon</Pill>}
    </span>
  );

function Budget({ item: { spent_this_month_usd: spent, monthly_budget_usd: budget } }: { item: ApiKey }) {
  if (budget === null) return <span>{money(spent)}</span>;
  const share = Math.min(1, spent / budget);
  return (
    <span class="keys-budget">
      {`${money(spent)} of ${money(budget)}`}
      <meter min={0} max={1} high={0.9} optimum={0} value={share} aria-label="Share of the budget" />
    </span>
  );
}

function Revoke({ item, isOwn, onClose }: { item: ApiKey; isOwn: boolean; onClose: () => void }) {
  const revoke = () =>
    attempt(async () => {
      await api(`/v1/api_keys/${item.id}`, { method: "DELETE" });
      await reload("/v1/api_keys");
    }, `Revoked ${item.name}`);
  return (
    <Confirm title="Revoke the key" verb="Revoke" onConfirm={revoke} onClose={onClose}>
      <p>{item.name} stops working at once, in every program and in every browser session.</p>
      {isOwn && <p class="bad">You are signed in with this key: this page is locked out too.</p>}
    </Confirm>
  );
}
