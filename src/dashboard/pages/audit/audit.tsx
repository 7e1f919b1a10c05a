import { useState } from "preact/hooks";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { AuditEntry } from "../../../resources/access/audit/schema.ts";
import { api } from "../../data/api.ts";
import { NONE, plural } from "../../data/format.ts";
import { type Page as ListPage, useList, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Empty, Page as Frame, Loaded } from "../../kit/page.tsx";
import { Pill } from "../../kit/pill.tsx";
import { More, Table } from "../../kit/table.tsx";
import { Time } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import { attempt, toast } from "../../shell/toasts.tsx";
import { csvOf, type Filter, matches } from "./filter.ts";

/** Pages of 100 entries that an export reads at most. */
const SHORT = 8; // digits of a request id that tell it apart
const MOST_PAGES = 200;

export function Page() {
  const keyId = queryOf("key") ?? "";
  const filter: Filter = { text: queryOf("q") ?? "", result: queryOf("result") ?? "" };
  const path = `/v1/account/audit_log?limit=100${keyId === "" ? "" : `&key_id=${encodeURIComponent(keyId)}`}`;
  const list = useList<AuditEntry>(path, { everyMs: 15_000 });
  const [read, setRead] = useState(0);
  const save = () =>
    attempt(async () => {
      const entries = await readAll(path, setRead);
      const wanted = entries.filter((entry) => matches(entry, filter));
      download(csvOf(wanted));
      toast(`Exported ${plural(wanted.length, "entry", "entries")}`);
    }).finally(() => setRead(0));
  return (
    <Frame
      title="Audit log"
      purpose="Every call that changed something, or tried to: who, what, when, from where."
      actions={<Button onClick={save}>{read > 0 ? `Reading ${read}` : "Export CSV"}</Button>}
    >
      <Card>
        <Filters filter={filter} keyId={keyId} />
        <Loaded of={{ ...list, data: list.items }}>
          {(rows) => <Entries rows={rows.filter((entry) => matches(entry, filter))} all={rows.length} />}
        </Loaded>
        <More list={list} />
      </Card>
    </Frame>
  );
}

function Filters({ filter, keyId }: { filter: Filter; keyId: string }) {
  const keys = useResource<{ data: ApiKey[] }>("/v1/api_keys?limit=100");
  return (
    <div class="audit-filters">
      <input
        type="search"
        aria-label="Filter the entries"
        placeholder="Route, resource, address, request"
        value={filter.text}
        onInput={(event) => setQuery({ q: event.currentTarget.value })}
      />
      <select aria-label="Key" value={keyId} onChange={(event) => setQuery({ key: event.currentTarget.value })}>
        <option value="">Every key</option>
        {keys.data?.data.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
      <select
        aria-label="Result"
        value={filter.result}
        onChange={(event) => setQuery({ result: event.currentTarget.value })}
      >
        <option value="">Every result</option>
        <option value="ok">Succeeded</option>
        <option value="refused">Refused</option>
      </select>
    </div>
  );
}

const Entries = ({ rows, all }: { rows: readonly AuditEntry[]; all: number }) =>
  rows.length === 0 ? (
    <Empty
      title={all === 0 ? "No entry yet" : "No entry matches"}
      action={all > 0 && <Button onClick={() => setQuery({ q: undefined, result: undefined })}>Clear filters</Button>}
    >
      {all === 0
        ? "Calls that change something appear here."
        : "The filter looks at the entries that are shown. Show more, or export all that match."}
    </Empty>
  ) : (
    <Table
      label="Audit log"
      rows={rows}
      keyOf={({ id }) => id}
      columns={[
        { title: "When", cell: ({ created_at }) => <Time at={created_at} /> },
        { title: "By", cell: ({ key, user }) => user?.email ?? key.name ?? key.id, wide: true },
        { title: "Call", cell: (entry) => <Call entry={entry} /> },
        { title: "Result", cell: ({ status }) => <Pill tone={status < 400 ? "good" : "bad"}>{String(status)}</Pill> },
        { title: "From", cell: ({ address }) => address ?? NONE, wide: true },
        { title: "Request", cell: ({ request_id: id }) => <code title={id}>{id.slice(0, SHORT)}</code>, wide: true },
      ]}
    />
  );

const Call = ({ entry: { method, route, resource_ids } }: { entry: AuditEntry }) => (
  <span class="audit-call">
    <code>{`${method} ${route}`}</code>
    <small>
      {Object.entries(resource_ids)
        .map(([name, value]) => `${name}: ${value}`)
        .join(", ")}
    </small>
  </span>
);

async function readAll(path: string, report: (read: number) => void): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  for (let page = 0, more = true; more && page < MOST_PAGES; page++) {
    const last = entries.at(-1);
    const next = await api<ListPage<AuditEntry>>(last ? `${path}&after=${last.id}` : path);
    entries.push(...next.data);
    more = next.has_more;
    report(entries.length);
  }
  return entries;
}

function download(text: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "audit_log.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}
